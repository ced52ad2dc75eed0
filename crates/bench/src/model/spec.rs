//! The SPEC language: how a model server behaves, in words separated by commas.
//!
//! The same words work on the command line and, as a change of what is running, at the control port. What a protocol cannot
//! do is refused here, so that no word of a test is ignored.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::dist::Dist;
use crate::net::Endpoint;
use crate::units::{count, duration, probability};

/// The largest body, 1 GiB: what a loopback test can still read in its time.
const MAX_BODY: u64 = 1 << 30;
/// The body when none is asked for; small, but enough to be cut in half by `reset=body`.
const DEFAULT_BODY: u64 = 16;
/// gRPC's "unavailable", the status of a failing call unless another is given.
const GRPC_UNAVAILABLE: u16 = 14;

/// What the server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0 and HTTP/1.1.
    Http,
    /// FastCGI responder.
    Fastcgi,
    /// uwsgi, answered with an HTTP message.
    Uwsgi,
    /// SCGI.
    Scgi,
    /// The text protocol of memcached, `get` only.
    Memcached,
    /// gRPC over cleartext HTTP/2, unary answers.
    Grpc,
}

/// Where a connection breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// Nowhere.
    None,
    /// After the service time, before the first byte.
    Header,
    /// In the middle of the body.
    Body,
}

/// Everything about a server that can be changed while it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Behaviour {
    /// Time that occupies no slot, half before and half after the service.
    pub network: Duration,
    /// Service time of one request.
    pub service: Dist,
    /// Requests worked on at once; more wait in order. `usize::MAX` without limit.
    pub k: usize,
    /// HTTP status of ordinary answers.
    pub status: u16,
    /// Probability of a failing answer and its status.
    pub fail: (f64, Option<u16>),
    /// Failing answers take neither slot nor service time.
    pub fast_fail: bool,
    /// With `fast_fail`: what they take instead, beside the network time.
    pub fail_after: Duration,
    /// All work takes so many times longer, what is under way as well.
    pub slow: f64,
    /// Requests are read and never answered.
    pub hang: bool,
    /// Wait between accepting a connection and reading from it.
    pub accept_delay: Duration,
    /// So many next requests take this service time instead.
    pub first: (u64, Duration),
    /// Added to the service time per request in flight at arrival, itself included.
    pub per_inflight: Duration,
    /// Where connections break.
    pub reset: Reset,
    /// Bytes of body.
    pub body: usize,
    /// Time over which the body is spread after the header.
    pub chunk_delay: Duration,
    /// Answers are not of the protocol.
    pub garbage: bool,
    /// Answers after which a connection that claims to be kept alive closes; 0 is never.
    pub close_after: u64,
    /// It closes only when the next request arrives.
    pub close_late: bool,
    /// `grpc-status` of ordinary answers.
    pub grpc_status: u16,
    /// gRPC answers are a single header frame without a message.
    pub trailers_only: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            network: Duration::ZERO,
            service: Dist::Const(0.0),
            k: usize::MAX,
            status: 200,
            fail: (0.0, None),
            fast_fail: false,
            fail_after: Duration::ZERO,
            slow: 1.0,
            hang: false,
            accept_delay: Duration::ZERO,
            first: (0, Duration::ZERO),
            per_inflight: Duration::ZERO,
            reset: Reset::None,
            body: usize::try_from(DEFAULT_BODY).unwrap_or(0),
            chunk_delay: Duration::ZERO,
            garbage: false,
            close_after: 0,
            close_late: false,
            grpc_status: 0,
            trailers_only: false,
        }
    }
}

/// A whole server as the command line describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The name in `X-Server`, statistics and control.
    pub name: String,
    /// Where it listens.
    pub listen: Endpoint,
    /// What it speaks.
    pub protocol: Protocol,
    /// How it starts out.
    pub behaviour: Behaviour,
}

impl Spec {
    /// Reads `NAME=word,word,…`.
    pub fn parse(text: &str) -> Result<Self> {
        let (name, words) = text.split_once('=').with_context(|| format!("\"{text}\" is not NAME=SPEC"))?;
        let legal = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        ensure!(!name.is_empty() && name.chars().all(legal), "server name \"{name}\" is not of letters, digits, - _ .");
        let mut listen = Endpoint::parse("127.0.0.1:0")?;
        let mut protocol = Protocol::Http;
        let mut rest = Vec::new();
        for word in words.split(',').filter(|word| !word.is_empty()) {
            match word.split_once('=') {
                Some(("listen", address)) => listen = Endpoint::parse(address)?,
                Some(("protocol", value)) => protocol = Protocol::parse(value)?,
                _ => rest.push(word),
            }
        }
        let behaviour = Behaviour::default().changed(&rest.join(","), protocol)?;
        Ok(Self { name: name.to_owned(), listen, protocol, behaviour })
    }
}

impl Protocol {
    fn parse(text: &str) -> Result<Self> {
        Ok(match text {
            "http" => Self::Http,
            "fastcgi" => Self::Fastcgi,
            "uwsgi" => Self::Uwsgi,
            "scgi" => Self::Scgi,
            "memcached" => Self::Memcached,
            "grpc" => Self::Grpc,
            _ => bail!("protocol \"{text}\" is not one of http, fastcgi, uwsgi, scgi, memcached, grpc"),
        })
    }
}

impl Behaviour {
    /// This behaviour with the words of `spec` changed and everything else as it was. Nothing is changed on an error.
    pub fn changed(&self, spec: &str, protocol: Protocol) -> Result<Self> {
        let mut new = self.clone();
        for word in spec.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (key, value) = word.split_once('=').unwrap_or((word, "on"));
            allowed(key, protocol)?;
            new.set(key, value, protocol).with_context(|| format!("in \"{word}\""))?;
        }
        if new.reset == Reset::Body {
            ensure!(new.body >= 2, "reset=body needs a body of at least 2 bytes");
            ensure!(!new.trailers_only, "reset=body needs a body, trailers_only has none");
        }
        Ok(new)
    }

    fn set(&mut self, key: &str, value: &str, protocol: Protocol) -> Result<()> {
        match key {
            "network" => self.network = duration(value)?,
            "service" => self.service = Dist::parse(value)?,
            "k" => self.k = concurrency(value)?,
            "status" => self.status = status(value)?,
            "fail" => self.fail = failure(value, protocol)?,
            "fast_fail" => self.fast_fail = switch(value)?,
            "fail_after" => self.fail_after = duration(value)?,
            "slow" => self.slow = slow(value)?,
            "hang" => self.hang = switch(value)?,
            "accept_delay" => self.accept_delay = duration(value)?,
            "first" => self.first = first(value)?,
            "per_inflight" => self.per_inflight = duration(value)?,
            "reset" => self.reset = reset(value)?,
            "body" => self.body = body(value)?,
            "chunk_delay" => self.chunk_delay = duration(value)?,
            "garbage" => self.garbage = switch(value)?,
            "close_idle" => (self.close_after, self.close_late) = close_idle(value)?,
            "grpc_status" => self.grpc_status = grpc_status(value)?,
            "trailers_only" => self.trailers_only = switch(value)?,
            "listen" | "protocol" => bail!("{key} cannot be changed while the server runs"),
            _ => bail!("unknown word \"{key}\""),
        }
        Ok(())
    }

    /// The status of a failing answer of this protocol.
    pub fn failure_status(&self, protocol: Protocol) -> u16 {
        self.fail.1.unwrap_or(if protocol == Protocol::Grpc { GRPC_UNAVAILABLE } else { 503 })
    }
}

fn allowed(key: &str, protocol: Protocol) -> Result<()> {
    let possible = match key {
        "grpc_status" | "trailers_only" => protocol == Protocol::Grpc,
        // The value is the server's name and there is no status: nothing to set.
        "status" | "body" | "chunk_delay" => protocol != Protocol::Memcached,
        // Streams of one HTTP/2 connection end one by one.
        "close_idle" => matches!(protocol, Protocol::Http | Protocol::Fastcgi | Protocol::Memcached),
        _ => true,
    };
    ensure!(possible, "\"{key}\" has no meaning for protocol {protocol:?}");
    Ok(())
}

fn slow(value: &str) -> Result<f64> {
    match value.parse() {
        Ok(factor) if (1e-3..=1e6).contains(&factor) => Ok(factor),
        _ => bail!("\"{value}\" is not a factor in 0.001 to 1000000"),
    }
}

fn switch(value: &str) -> Result<bool> {
    ensure!(matches!(value, "on" | "off"), "\"{value}\" is not on or off");
    Ok(value == "on")
}

fn concurrency(value: &str) -> Result<usize> {
    match value {
        "off" => Ok(usize::MAX),
        _ => match value.parse() {
            Ok(k) if k > 0 => Ok(k),
            _ => bail!("k=\"{value}\" is not a positive count or off"),
        },
    }
}

fn status(value: &str) -> Result<u16> {
    match value.parse() {
        Ok(status @ 200..=599) => Ok(status),
        _ => bail!("status \"{value}\" is not in 200 to 599"),
    }
}

fn grpc_status(value: &str) -> Result<u16> {
    match value.parse() {
        Ok(status @ 0..=16) => Ok(status),
        _ => bail!("grpc_status \"{value}\" is not in 0 to 16"),
    }
}

fn failure(value: &str, protocol: Protocol) -> Result<(f64, Option<u16>)> {
    let (share, code) = value.split_once(':').map_or((value, None), |(share, code)| (share, Some(code)));
    let read = match protocol {
        Protocol::Grpc => grpc_status,
        Protocol::Memcached if code.is_some() => bail!("memcached knows no status"),
        _ => status,
    };
    Ok((probability(share)?, code.map(read).transpose()?))
}

fn first(value: &str) -> Result<(u64, Duration)> {
    let (number, time) = value.split_once(':').context("not COUNT:TIME")?;
    Ok((count(number)?, duration(time)?))
}

fn reset(value: &str) -> Result<Reset> {
    Ok(match value {
        "none" => Reset::None,
        "header" => Reset::Header,
        "body" => Reset::Body,
        _ => bail!("\"{value}\" is not none, header or body"),
    })
}

fn body(value: &str) -> Result<usize> {
    let bytes = count(value)?;
    ensure!(bytes <= MAX_BODY, "body \"{value}\" is larger than 1 GiB");
    Ok(usize::try_from(bytes)?)
}

fn close_idle(value: &str) -> Result<(u64, bool)> {
    match value.split_once(':') {
        _ if value == "off" => Ok((0, false)),
        Some((answers, "late")) => Ok((count(answers)?, true)),
        None => Ok((count(value)?, false)),
        Some(_) => bail!("\"{value}\" is not COUNT, COUNT:late or off"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_server_is_read() {
        let spec = Spec::parse("A=listen=[::1]:0,network=50ms,service=exp:10ms,k=8,fail=0.01:500,first=4:2s").unwrap();
        assert_eq!(spec.name, "A");
        assert_eq!(spec.listen, Endpoint::parse("[::1]:0").unwrap());
        assert_eq!(spec.behaviour.k, 8);
        assert_eq!(spec.behaviour.fail, (0.01, Some(500)));
        assert_eq!(spec.behaviour.first, (4, Duration::from_secs(2)));
        assert_eq!(spec.behaviour.network, Duration::from_millis(50));
    }

    #[test]
    fn a_change_keeps_the_rest_and_an_error_changes_nothing() {
        let before = Spec::parse("A=k=8,hang,close_idle=1:late").unwrap().behaviour;
        assert!(before.hang && before.close_late);
        let after = before.changed("hang=off,service=const:5ms", Protocol::Http).unwrap();
        assert_eq!((after.k, after.hang, after.service), (8, false, Dist::Const(0.005)));
        assert!(before.changed("k=2,service=nonsense", Protocol::Http).is_err());
        assert!(before.changed("listen=127.0.0.1:1", Protocol::Http).is_err());
    }

    #[test]
    fn words_without_meaning_are_refused() {
        for wrong in [
            "A",
            "=k=1",
            "A=k=0",
            "A=status=99",
            "A=reset=body,body=1",
            "A=listen=10.0.0.1:80",
            "A=grpc_status=14",
            "A=protocol=memcached,body=5",
            "A=protocol=scgi,close_idle=1",
            "A=hang=perhaps",
            "A=slow=0",
            "A b=k=1",
        ] {
            assert!(Spec::parse(wrong).is_err(), "{wrong}");
        }
    }
}
