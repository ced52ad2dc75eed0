//! Ties this crate to one nginx: version → `cfg`, structure layout → compile-time assertions.
//!
//! Here because only a build script sees what `nginx-sys` found out about the nginx it was given (`DEP_NGINX_*`, handed to direct
//! dependents only). Refuses an nginx the module cannot be safe with, in words. Finds, configures and downloads nothing:
//! `nginx-sys` and `scripts/build` do that.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "src/status/page/assemble.rs"]
mod page;

/// Oldest nginx whose structures and call-backs the module is written and tested against.
const OLDEST: u32 = 1_022_000;

/// Versions at which nginx changed something the module has to know, and the `cfg` that says "this or later".
const GATES: &[(u32, &str)] = &[
    (1_027_003, "ngx_ge_1_27_3"), // `resolve` in open source: peers come and go, `refs`, `config`, flag MODIFY
    (1_029_006, "ngx_ge_1_29_6"), // `sticky`: `hint` and `sid`, drain, notify() at the response header
    (1_029_007, "ngx_ge_1_29_7"), // keepalive wraps every upstream after all methods are set, on by default
    (1_031_000, "ngx_ge_1_31_0"), // `least_time` in open source: more fields after `next`
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/abi.h");
    for (_, name) in GATES {
        println!("cargo::rustc-check-cfg=cfg({name})");
    }
    println!("cargo::rustc-check-cfg=cfg(ngx_pcre)");
    if let Err(reason) = run() {
        eprintln!("error: {reason}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), String> {
    let number: u32 =
        metadata("VERSION_NUMBER")?.parse().map_err(|e| format!("nginx-sys reports no version number: {e}"))?;
    let version = metadata("VERSION")?.trim_start_matches("nginx/").to_owned();
    if number < OLDEST {
        return Err(format!(
            "nginx {version} is too old: labor needs 1.22.0 or newer.\n  Remedy: build against a newer nginx."
        ));
    }
    require_compat(&version)?;

    for (since, name) in GATES {
        if number >= *since {
            println!("cargo::rustc-cfg={name}");
        }
    }
    // Locations by regular expression; their field is missing without.
    if defines("NGX_PCRE")? {
        println!("cargo::rustc-cfg=ngx_pcre");
    }
    println!("cargo::rustc-env=LABOR_NGINX_VERSION={version}");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    page::assemble(Path::new("src/status/page"), &out)?;
    layout_constants()
}

/// A value `nginx-sys` hands to its direct dependents.
fn metadata(key: &str) -> Result<String, String> {
    let name = format!("DEP_NGINX_{key}");
    env::var(&name).map_err(|_| format!("{name} is not set: nginx-sys must be a direct dependency of this package"))
}

/// Whether the header that nginx itself compiles with defines `name` as 1.
fn defines(name: &str) -> Result<bool, String> {
    let header = PathBuf::from(metadata("BUILD_DIR")?).join("ngx_auto_config.h");
    println!("cargo::rerun-if-changed={}", header.display());
    let text = fs::read_to_string(&header).map_err(|e| format!("{}: {e}", header.display()))?;
    Ok(text.lines().any(|line| {
        let mut words = line.split_whitespace();
        (words.next(), words.next(), words.next()) == (Some("#define"), Some(name), Some("1"))
    }))
}

/// Without `--with-compat` the layout of nginx's structures depends on every other configure option, and neither version nor
/// signature tells two such builds apart. Both what nginx-sys saw and the header nginx itself compiles with must agree.
fn require_compat(version: &str) -> Result<(), String> {
    if defines("NGX_COMPAT")? && metadata("FEATURES")?.split(',').any(|feature| feature == "compat") {
        return Ok(());
    }
    Err(format!(
        "nginx {version} in {} was configured without --with-compat.\n  \
         Reason: the layout of its structures then depends on all other options, so a module built here may corrupt the \
         memory of the nginx that loads it.\n  \
         Remedy: configure nginx with --with-compat (packages of Debian and of nginx do) and build again.",
        metadata("BUILD_DIR")?
    ))
}

/// Has clang evaluate `src/abi.h` and writes `OUT_DIR/abi.rs`: the constants, and an assertion for each that the bindings agree.
fn layout_constants() -> Result<(), String> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?).join("abi.rs");
    let includes = metadata("INCLUDE")?;
    // nginx-sys 0.5.0 means to publish `cflags`, but its line arrives as a key `metadata` with the value "cflags=-D…".
    let published = metadata("METADATA").or_else(|_| metadata("CFLAGS")).unwrap_or_default();
    let flags = published.trim_start_matches("cflags=").split_whitespace().filter(|word| word.starts_with("-D"));

    let text = bindgen::Builder::default()
        .header("src/abi.h")
        .clang_args(env::split_paths(&includes).map(|dir| format!("-I{}", dir.display())))
        .clang_args(flags)
        .allowlist_var("SIZEOF_.*|OFFSETOF_.*")
        .layout_tests(false)
        .use_core()
        .generate()
        .map_err(|e| format!("src/abi.h does not compile against this nginx: {e}"))?
        .to_string();
    let asserts = assertions(&text)?;
    fs::write(&out, text + &asserts).map_err(|e| format!("{}: {e}", out.display()))
}

/// One assertion per constant, so that the list of fields stands once, in `src/abi.h`.
fn assertions(constants: &str) -> Result<String, String> {
    let mut out = String::new();
    let names = constants.lines().filter_map(|l| l.trim().strip_prefix("pub const ")?.split(':').next());
    for name in names {
        let claim = if let Some(ty) = name.strip_prefix("SIZEOF_") {
            format!("size_of::<nginx_sys::{ty}>()")
        } else if let Some((ty, field)) = name.strip_prefix("OFFSETOF_").and_then(|rest| rest.split_once("__")) {
            format!("offset_of!(nginx_sys::{ty}, {field})")
        } else {
            continue;
        };
        writeln!(out, "const _: () = assert!(core::mem::{claim} == {name}, \"{name}: bindings and C disagree\");")
            .map_err(|e| e.to_string())?;
    }
    if out.is_empty() { Err("src/abi.h yields no constant".into()) } else { Ok(out) }
}
