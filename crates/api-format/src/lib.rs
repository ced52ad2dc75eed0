//! Everything that the control interface of `labor` reads from outside, as pure functions: bytes in, values or reasons out.
//!
//! Here because parsers of untrusted input must be tested without nginx, by properties and by fuzzing. Nothing here does I/O
//! or knows what is done with the values.
#![forbid(unsafe_code)]

pub mod body;
pub mod origin;
pub mod route;
pub mod state;
pub mod text;
