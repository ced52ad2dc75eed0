//! Every target over its corpus and over what is near it: the part of fuzzing that takes no fuzzer.

use std::fs;
use std::path::{Path, PathBuf};

use labor_fuzz::TARGETS;

/// Mutants of each file of the corpus. All of them take two seconds.
const MUTANTS: u64 = 40;

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name)
}

fn files(name: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(corpus(name)).unwrap_or_else(|error| panic!("corpus/{name}: {error}"));
    entries.map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect()
}

/// SplitMix64 (Steele, Lea, Flood 2014): the same mutants in each run.
fn random(state: &mut u64) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as usize
}

/// A few bytes changed, dropped, doubled or taken from another file.
fn mutant(data: &[u8], other: &[u8], state: &mut u64) -> Vec<u8> {
    let mut bytes = data.to_vec();
    for _ in 0..=random(state) % 4 {
        let at = random(state) % (bytes.len() + 1);
        match random(state) % 5 {
            0 if at < bytes.len() => bytes[at] ^= 1 << (random(state) % 8),
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 => bytes.insert(at, random(state) as u8),
            3 => bytes.truncate(at),
            _ => {
                let from = random(state) % (other.len() + 1);
                let piece: Vec<u8> = other[from..].iter().take(random(state) % 32).copied().collect();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

#[test]
fn every_target_has_a_corpus_and_survives_it_and_its_mutants() {
    for (name, target) in TARGETS {
        let (files, mut state) = (files(name), 1);
        assert!(files.len() >= 3, "{name}: {} files", files.len());
        for data in &files {
            target(data);
            for _ in 0..MUTANTS {
                let other = &files[random(&mut state) % files.len()];
                target(&mutant(data, other, &mut state));
            }
        }
    }
}

#[test]
fn every_corpus_has_its_target() {
    for entry in fs::read_dir(corpus("")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(TARGETS.iter().any(|(known, _)| *known == name), "corpus/{name} is nobody's");
    }
}
