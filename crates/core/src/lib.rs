//! The balancing law of `labor`: what is measured, the curves learned from it, the score and the pick.
//!
//! This crate knows balancing and nothing about nginx: no clock, no entropy, no I/O, no logging, no `unsafe`. Time and
//! randomness come in as arguments, so that what is simulated is what runs. It does not own shared memory either: the
//! types in [`peer`], [`group`] and [`inflight`] are plain atomics, valid when zeroed, which the caller places there.
#![forbid(unsafe_code)]

pub mod affinity;
pub mod attempt;
pub mod balancer;
pub mod breaker;
pub mod carry;
pub mod check;
pub mod choice;
pub mod control;
pub mod curve;
pub mod events;
mod evidence;
mod explore;
pub mod followed;
pub mod group;
pub mod histogram;
pub mod history;
pub mod inflight;
#[cfg(all(test, loom))]
mod interleavings;
pub mod key;
pub mod ledger;
mod long;
pub mod news;
mod pair;
pub mod params;
pub mod peer;
mod pick;
mod policy;
mod probe;
mod quota;
pub mod ramp;
pub mod report;
pub mod rng;
mod rotation;
mod row;
mod score;
mod shift;
pub mod slots;
pub mod sync;
mod table;
pub mod time;
pub mod tuning;

pub use attempt::{Attempt, Failure, Outcome, Receipt};
pub use balancer::{Balancer, Candidate, Choice, Fit, Member, Reason, Request};
pub use group::Group;
pub use inflight::{Cell, Shared};
pub use params::{Metric, Params, Policy};
pub use peer::Peer;
