//! Puts the status page together while the module is built: one HTML text in two halves, and the policy that lets browsers run
//! nothing but what stands in it.
//!
//! Here, used by `build.rs` alone, because the hashes in the policy must be those of the very bytes that are sent. The rows of the
//! table between the halves are written while nginx runs (`page.rs`).

use std::fs;
use std::path::Path;

use base64::Engine as _;
use sha2::{Digest as _, Sha256};

/// The scripts in the order in which they need each other.
const SCRIPTS: &[&str] =
    &["dom", "format", "words", "data", "poll", "table", "detail", "chart", "timeline", "curves", "section", "main"];

/// The most the page may weigh, bytes: more is felt over a slow line at night.
const MOST: usize = 120_000;

/// Reads the sources in `from` and writes `page_head.html`, `page_tail.html` and `page_policy.txt` to `to`.
pub fn assemble(from: &Path, to: &Path) -> Result<(), String> {
    let read = |name: &str| {
        let file = from.join(name);
        println!("cargo::rerun-if-changed={}", file.display());
        fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))
    };
    let style = lean(&read("page.css")?);
    let mut script = String::from("'use strict';\n(() => {\n");
    for name in SCRIPTS {
        script += &lean(&read(&format!("{name}.js"))?);
    }
    script += "})();\n";
    for (text, end) in [(&style, "</style"), (&script, "</script")] {
        if text.to_lowercase().contains(end) {
            return Err(format!("the status page would end early: a source of it contains {end}"));
        }
    }
    let page = read("page.html")?.replace("{{STYLE}}", &style).replace("{{SCRIPT}}", &script);
    let (head, tail) = page.split_once("{{TABLE}}").ok_or("page.html has no place for the table")?;
    if page.len() > MOST {
        return Err(format!("the status page has {} bytes, at most {MOST} are allowed", page.len()));
    }
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        hash(&script),
        hash(&style)
    );
    for (name, text) in [("page_head.html", head), ("page_tail.html", tail), ("page_policy.txt", &policy)] {
        fs::write(to.join(name), text).map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(())
}

/// Without indentation, empty lines and lines that only comment; the sources keep to comments of such lines.
fn lean(text: &str) -> String {
    let mut out = String::new();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//"));
    for line in lines.filter(|line| !(line.starts_with("/*") && line.ends_with("*/"))) {
        out += line;
        out.push('\n');
    }
    out
}

/// A source expression of a Content-Security-Policy.
fn hash(text: &str) -> String {
    format!("sha256-{}", base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text.as_bytes())))
}
