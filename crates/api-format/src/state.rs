//! The file that keeps what was set for servers while nginx does not run: one line a server, counted and checksummed.
//!
//! ```text
//! labor-state 1
//! server upstream=app list=primary name=10.0.0.1:80 address=10.0.0.1:80 ordinal=0 weight=5 state=drain
//! end 1 6d1cb0f2a14c3b55
//! ```
//!
//! The last line says how many servers there are and carries a SipHash-1-3 of everything before it: a file that was cut off,
//! mixed or edited is told from a whole one. Not here: reading and writing files.

use core::fmt::{self, Write as _};
use core::hash::Hasher;

use labor_core::control::{Control, Patch, State};
use labor_core::key::{Identity, peer_key};
use labor_core::params::Metric;
use siphasher::sip::SipHasher13;

use crate::text::{decode, encode};

/// Largest file, bytes: room for a hundred thousand servers.
pub const LIMIT: usize = 16 << 20;

/// Begins every file; the number grows when older versions of this program could not read it.
const HEAD: &str = "labor-state 1";

/// One server and what is set for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The upstream's name.
    pub upstream: Vec<u8>,
    /// Whether the server is in the backup list.
    pub backup: bool,
    /// The server as configured.
    pub name: Vec<u8>,
    /// The printable address.
    pub address: Vec<u8>,
    /// Which of several equal ones.
    pub ordinal: u32,
    /// What is set.
    pub control: Control,
}

impl Entry {
    /// What the server's record is found by when `metric` is measured.
    pub fn key(&self, metric: Metric) -> u64 {
        peer_key(&Identity {
            upstream: &self.upstream,
            backup: self.backup,
            name: &self.name,
            address: &self.address,
            ordinal: self.ordinal,
            metric,
        })
    }
}

/// Why a file is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Larger than [`LIMIT`].
    TooLong,
    /// It does not begin as such a file does.
    NoState,
    /// Of a version that this program does not know.
    Version(String),
    /// The last line is missing or not whole.
    CutOff,
    /// What is there is not what was written.
    Checksum,
    /// The last line counts other servers than there are.
    Count,
    /// Line so and so cannot be read, and why.
    Line(usize, &'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "it is larger than {LIMIT} bytes"),
            Self::NoState => write!(f, "it does not begin with \"{HEAD}\""),
            Self::Version(version) => write!(f, "it is of version \"{version}\", which is not known"),
            Self::CutOff => f.write_str("its last line is missing: it was cut off"),
            Self::Checksum => f.write_str("its checksum is wrong: it was damaged or edited"),
            Self::Count => f.write_str("it does not hold as many servers as it says"),
            Self::Line(number, reason) => write!(f, "line {number}: {reason}"),
        }
    }
}

/// Writes a file.
pub fn write(entries: &[Entry]) -> String {
    let mut text = format!("{HEAD}\n");
    for entry in entries.iter().filter(|entry| !entry.control.is_empty()) {
        text.push_str("server");
        for (field, bytes) in [("upstream", &entry.upstream), ("name", &entry.name), ("address", &entry.address)] {
            text.push(' ');
            text.push_str(field);
            text.push('=');
            encode(bytes, &mut text);
        }
        let list = if entry.backup { "backup" } else { "primary" };
        // Writing to a string cannot fail.
        let _ = write!(text, " list={list} ordinal={}", entry.ordinal);
        if let Some(weight) = entry.control.weight {
            let _ = write!(text, " weight={}", weight.value);
        }
        if let Some(state) = entry.control.state {
            let _ = write!(text, " state={}", state.value.name());
        }
        if let Some(max_conns) = entry.control.max_conns {
            let _ = write!(text, " max_conns={}", max_conns.value);
        }
        text.push('\n');
    }
    let count = entries.iter().filter(|entry| !entry.control.is_empty()).count();
    let sum = checksum(text.as_bytes());
    let _ = writeln!(text, "end {count} {sum:016x}");
    text
}

/// Reads a file; everything that it says is set counts as read from a file.
pub fn parse(bytes: &[u8]) -> Result<Vec<Entry>, Error> {
    if bytes.len() > LIMIT {
        return Err(Error::TooLong);
    }
    let head = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if head != HEAD.as_bytes() {
        let version = head.strip_prefix(b"labor-state ").filter(|v| !v.is_empty() && v.len() <= 16);
        return Err(version.map_or(Error::NoState, |v| Error::Version(v.escape_ascii().to_string())));
    }
    let text = core::str::from_utf8(bytes).map_err(|_| Error::Checksum)?;
    let body = text.strip_suffix('\n').ok_or(Error::CutOff)?;
    let (lines, last) = body.rsplit_once('\n').ok_or(Error::CutOff)?;
    let (count, sum) = last.strip_prefix("end ").and_then(|rest| rest.split_once(' ')).ok_or(Error::CutOff)?;
    let summed = text.get(..lines.len() + 1).unwrap_or_default();
    if sum.len() != 16 || u64::from_str_radix(sum, 16) != Ok(checksum(summed.as_bytes())) {
        return Err(Error::Checksum);
    }
    let entries: Vec<Entry> = lines
        .lines()
        .enumerate()
        .skip(1)
        .map(|(i, text)| line(text).map_err(|reason| Error::Line(i + 1, reason)))
        .collect::<Result<_, _>>()?;
    if count.parse() == Ok(entries.len()) { Ok(entries) } else { Err(Error::Count) }
}

/// What the last line of a file carries: SipHash-1-3 of everything before it.
pub fn checksum(bytes: &[u8]) -> u64 {
    let mut hash = SipHasher13::new();
    hash.write(bytes);
    hash.finish()
}

fn line(text: &str) -> Result<Entry, &'static str> {
    let mut words = text.split(' ');
    if words.next() != Some("server") {
        return Err("it does not begin with \"server\"");
    }
    let mut entry = Entry {
        upstream: Vec::new(),
        backup: false,
        name: Vec::new(),
        address: Vec::new(),
        ordinal: 0,
        control: Control::default(),
    };
    let (mut patch, mut seen) = (Patch::default(), Vec::new());
    for word in words {
        let (field, value) = word.split_once('=').ok_or("a word without \"=\"")?;
        if seen.contains(&field) {
            return Err("a field stands there twice");
        }
        seen.push(field);
        let bytes = || decode(value).ok_or("a name is not encoded as it should be");
        match field {
            "upstream" => entry.upstream = bytes()?,
            "name" => entry.name = bytes()?,
            "address" => entry.address = bytes()?,
            "list" => {
                entry.backup = match value {
                    "primary" => false,
                    "backup" => true,
                    _ => return Err("\"list\" is neither \"primary\" nor \"backup\""),
                }
            }
            "ordinal" => entry.ordinal = value.parse().map_err(|_| "\"ordinal\" is no number")?,
            "weight" => patch.weight = Some(Some(value.parse().map_err(|_| "\"weight\" is out of range")?)),
            "state" => patch.state = Some(Some(State::named(value).ok_or("\"state\" is unknown")?)),
            "max_conns" => patch.max_conns = Some(Some(value.parse().map_err(|_| "\"max_conns\" is out of range")?)),
            _ => return Err("an unknown field"),
        }
    }
    if !["upstream", "name", "address", "list", "ordinal"].iter().all(|field| seen.contains(field)) {
        return Err("a field is missing");
    }
    entry.control = entry.control.with(&patch, true);
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..40)
    }

    prop_compose! {
        fn entries()(
            upstream in names(), backup in any::<bool>(), name in names(), address in names(), ordinal in any::<u32>(),
            weight in proptest::option::of(any::<u16>()), max_conns in proptest::option::of(any::<u32>()),
            state in prop_oneof![Just(None), Just(Some(State::Up)), Just(Some(State::Drain)), Just(Some(State::Down))],
        ) -> Entry {
            let patch = Patch { weight: Some(weight), state: Some(state), max_conns: Some(max_conns) };
            Entry { upstream, backup, name, address, ordinal, control: Control::default().with(&patch, true) }
        }
    }

    fn sample() -> Vec<Entry> {
        let patch = Patch { state: Some(Some(State::Down)), ..Patch::default() };
        let control = Control::default().with(&patch, false);
        let entry = |name: &[u8]| Entry {
            upstream: b"app".to_vec(),
            backup: false,
            name: name.to_vec(),
            address: b"10.0.0.1:80".to_vec(),
            ordinal: 0,
            control,
        };
        vec![entry(b"10.0.0.1:80"), entry(b"a \"b\"\n\xff")]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(entries in proptest::collection::vec(entries(), 0..8)) {
            let set: Vec<Entry> = entries.iter().filter(|entry| !entry.control.is_empty()).cloned().collect();
            prop_assert_eq!(parse(write(&entries).as_bytes()), Ok(set));
        }

        #[test]
        fn anything_is_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn anything_behind_the_head_is_read_without_panic(rest in "(server [a-z=%0-9 ]{0,40}\n){0,3}(end [0-9]{1,2} [0-9a-f]{16}\n)?") {
            let _ = parse(format!("{HEAD}\n{rest}").as_bytes());
        }

        #[test]
        fn every_damage_is_noticed(at in any::<prop::sample::Index>(), bit in 0..8_u32) {
            let mut bytes = write(&sample()).into_bytes();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            // The checksum is read in either case of its letters.
            prop_assume!(!bytes.eq_ignore_ascii_case(write(&sample()).as_bytes()));
            prop_assert!(parse(&bytes).is_err());
        }

        #[test]
        fn every_cut_is_noticed(at in any::<prop::sample::Index>()) {
            let bytes = write(&sample()).into_bytes();
            prop_assert!(parse(&bytes[..at.index(bytes.len())]).is_err());
        }
    }

    #[test]
    fn values_read_count_as_from_a_file() {
        let entries = parse(write(&sample()).as_bytes()).unwrap();
        assert!(entries.iter().all(|entry| entry.control.state.is_some_and(|state| state.from_file)));
    }

    #[test]
    fn each_reason_has_its_words() {
        let with = |lines: &str| {
            let text = format!("{HEAD}\n{lines}");
            let count = lines.lines().count();
            format!("{text}end {count} {:016x}\n", checksum(text.as_bytes()))
        };
        let full = "server upstream=u list=primary name=n address=a ordinal=0";
        for (text, words) in [
            (String::new(), "does not begin"),
            ("labor-state 2\n".into(), "version \"2\""),
            (format!("{HEAD}\n"), "cut off"),
            (with("").replace("end 0", "end 1"), "as many"),
            (with("").replace("end 0 ", "end 0  "), "checksum"),
            (with("x\n"), "line 2: it does not begin"),
            (with("server upstream=u\n"), "line 2: a field is missing"),
            (with(&format!("{full} state=up\n{full} state=drained\n")), "line 3: \"state\""),
            (with(&format!("{full} weight=65536\n")), "\"weight\" is out of range"),
            (with(&format!("{full} colour=1\n")), "unknown field"),
            (with(&format!("{full} name=n\n")), "twice"),
            (with(&full.replace("name=n", "name=%zz")), "cut off"),
            (with(&format!("{}\n", full.replace("name=n", "name=%zz"))), "encoded"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(words), "{text:?}: {error}");
        }
    }
}
