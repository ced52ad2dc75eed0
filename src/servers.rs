//! One of nginx's lists as it stood at one moment, copied out under its lock.
//!
//! Here because rendering must not hold a lock: names go into memory reserved before, figures into plain values. Not here:
//! what is shown of them (`status`), and where they are probed (`health`).

use core::ops::Range;

use labor_core::Metric;
use labor_core::control::Settings;
use labor_core::key::{Identity, number_equals, peer_key};
use nginx_sys::{ngx_http_upstream_rr_peers_t, ngx_time, ngx_uint_t};

use crate::ffi::{self, RrPeers};

/// Bytes reserved for a server's names and address; longer ones are made up for by shorter ones, or the list is read again.
const NAMES: usize = 192;

/// How often a list is read that grows under our hands.
const ATTEMPTS: u32 = 6;

/// One server as nginx has it.
pub struct Server {
    name: Range<usize>,
    address: Range<usize>,
    sockaddr: Range<usize>,
    /// As configured: weight, state, `max_conns`.
    pub configured: Settings,
    /// Connections, as nginx counts them (per worker without `zone`).
    pub conns: ngx_uint_t,
    /// nginx counts it out for its failures (`max_fails`).
    pub counted_out: bool,
    /// `max_fails`, 0 for never counted out.
    pub max_fails: u64,
    /// `fail_timeout`, s.
    pub fail_timeout: i64,
    /// Which of several equal entries.
    pub ordinal: u32,
}

/// A list of servers.
#[derive(Default)]
pub struct Servers {
    servers: Vec<Server>,
    text: Vec<u8>,
    /// The backup list.
    pub backup: bool,
}

impl Servers {
    /// Copies `list`; a null list is empty. `None` when it keeps changing or memory is short.
    ///
    /// # Safety
    /// `list` is null or a live list; this worker holds no list's lock.
    pub unsafe fn read(list: *mut ngx_http_upstream_rr_peers_t, backup: bool) -> Option<Self> {
        let mut copy = Self { backup, ..Self::default() };
        if list.is_null() {
            return Some(copy);
        }
        for attempt in 1..=ATTEMPTS {
            // SAFETY: by contract; the lock is given back at the end of the statement.
            let number = unsafe { RrPeers::read(list) }.number();
            copy.servers.clear();
            copy.text.clear();
            copy.servers.try_reserve(number).ok()?;
            copy.text.try_reserve(number.saturating_mul(NAMES << attempt)).ok()?;
            // SAFETY: by contract.
            if copy.fill(&unsafe { RrPeers::read(list) }) {
                copy.number();
                return Some(copy);
            }
        }
        None
    }

    /// Copies within the memory reserved; whether it sufficed.
    fn fill(&mut self, list: &RrPeers) -> bool {
        let (single, now) = (list.single(), ngx_time());
        for peer in list.iter() {
            if self.servers.len() == self.servers.capacity() {
                return false;
            }
            // SAFETY: the strings live while the list is locked.
            let (name, address) = unsafe { (ffi::bytes(peer.server()), ffi::bytes(peer.name())) };
            let (Some(name), Some(address)) = (self.keep(name), self.keep(address)) else { return false };
            // SAFETY: as the strings.
            let Some(sockaddr) = self.keep(unsafe { peer.sockaddr() }) else { return false };
            self.servers.push(Server {
                name,
                address,
                sockaddr,
                configured: peer.configured(),
                conns: peer.conns(),
                counted_out: !single && peer.counted_out(now),
                max_fails: peer.max_fails() as u64,
                fail_timeout: peer.fail_timeout(),
                ordinal: 0,
            });
        }
        true
    }

    fn keep(&mut self, text: &[u8]) -> Option<Range<usize>> {
        let from = self.text.len();
        if self.text.capacity().saturating_sub(from) < text.len() {
            return None;
        }
        self.text.extend_from_slice(text);
        Some(from..self.text.len())
    }

    /// Numbers equal entries in the list's order, as the request path does.
    fn number(&mut self) {
        let text = |range: &Range<usize>| self.text.get(range.clone()).unwrap_or_default();
        let mut names: Vec<_> =
            (0u32..).zip(&self.servers).map(|(i, s)| ((text(&s.name), text(&s.address)), i)).collect();
        let servers = &mut self.servers;
        number_equals(&mut names, |index, ordinal| {
            if let Some(server) = servers.get_mut(index as usize) {
                server.ordinal = ordinal;
            }
        });
    }

    /// The servers in order.
    pub fn iter(&self) -> impl Iterator<Item = &Server> {
        self.servers.iter()
    }

    /// The server as configured.
    pub fn name(&self, server: &Server) -> &[u8] {
        self.text.get(server.name.clone()).unwrap_or_default()
    }

    /// The printable address.
    pub fn address(&self, server: &Server) -> &[u8] {
        self.text.get(server.address.clone()).unwrap_or_default()
    }

    /// The address as the system has it (`sockaddr`).
    pub fn sockaddr(&self, server: &Server) -> &[u8] {
        self.text.get(server.sockaddr.clone()).unwrap_or_default()
    }

    /// What its record is found by.
    pub fn key(&self, server: &Server, upstream: &[u8], metric: Metric) -> u64 {
        peer_key(&Identity {
            upstream,
            backup: self.backup,
            name: self.name(server),
            address: self.address(server),
            ordinal: server.ordinal,
            metric,
        })
    }
}
