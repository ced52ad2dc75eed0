//! The scenarios that come with labor-sim, in the program itself: it runs wherever it is copied to.

use crate::Scenario;
use include_dir::{Dir, include_dir};
use std::path::Path;

static SCENARIOS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/scenarios");

/// Their names, sorted.
pub fn names() -> Vec<String> {
    let stem = |f: &include_dir::File<'_>| Some(f.path().file_stem()?.to_string_lossy().into_owned());
    let mut names: Vec<_> = SCENARIOS.files().filter_map(stem).collect();
    names.sort();
    names
}

/// The scenario called `name`, or the one in the file `name` when that ends with .toml.
///
/// # Errors
/// When there is none of that name (with the nearest one that is), or it holds nonsense.
pub fn load(name: &str) -> Result<Scenario, String> {
    if name.ends_with(".toml") || name.contains('/') {
        return Scenario::load(Path::new(name));
    }
    let text = text(name)?;
    let mut scenario = Scenario::parse(text).map_err(|e| format!("{name}: {e}"))?;
    if scenario.name.is_empty() {
        scenario.name = name.to_owned();
    }
    Ok(scenario)
}

/// The text of the scenario called `name`.
///
/// # Errors
/// When there is none of that name.
pub fn text(name: &str) -> Result<&'static str, String> {
    SCENARIOS.get_file(format!("{name}.toml")).and_then(|f| f.contents_utf8()).ok_or_else(|| {
        let near = names().into_iter().min_by_key(|n| distance(n, name));
        let near = near.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
        format!("no scenario '{name}'{near} 'labor-sim list' shows all, and files end with .toml")
    })
}

/// Letters to be changed, added or taken away between two names (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let cost = (diagonal + usize::from(x != *y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], cost);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_scenario_is_valid_and_says_what_it_is() {
        let names = names();
        assert!(names.len() >= 40, "{}", names.len());
        for name in names {
            let scenario = load(&name).unwrap_or_else(|e| panic!("{e}"));
            assert!(scenario.about.len() > 20 && scenario.name == name, "{name}");
        }
    }

    #[test]
    fn a_slip_of_the_finger_is_helped() {
        let error = load("homog06").unwrap_err();
        assert!(error.contains("did you mean 'homog60'"), "{error}");
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
