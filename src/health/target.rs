//! Whom to probe: the servers of upstreams with `labor_check`, read from nginx's lists, with all that a probe needs.
//!
//! Read anew when a list changes or a record is missing. Not here: when they are probed.

use std::collections::BTreeMap;
use std::ffi::CString;

use labor_core::control::Settings;
use labor_core::key::group_key;
use labor_core::time::{Micros, SECOND};
use labor_core::{Group, Params, Peer};
use labor_probe_format::{authority, grpc, http, server_name};
use nginx_sys::{ngx_http_upstream_rr_peers_t, ngx_http_upstream_srv_conf_t, ngx_uint_t};

use super::connection::{Connection, Handler};
use super::probe::Manner;
use crate::ffi::{self, RrPeers, tls::Tls};
use crate::servers::{Server, Servers};
use crate::settings::{Check, Kind, MainConf};
use crate::zone::{self, View};

/// Where the port stands in the address of an IPv4 or IPv6 server.
const PORT: core::ops::Range<usize> = 2..4;
/// The first probe of a server comes within this time: what is not known for long is of no use.
const FIRST_WITHIN: Micros = SECOND;

/// An upstream with checks.
pub struct Watched {
    us: *mut ngx_http_upstream_srv_conf_t,
    /// Its settings.
    pub params: Params,
    /// What `labor_check` says.
    pub check: &'static Check,
    /// Its name.
    pub name: &'static [u8],
    /// nginx's counters of changes when its lists were read.
    read: Option<[ngx_uint_t; 2]>,
}

/// A server to be probed.
pub struct Target {
    /// Its upstream's place.
    pub upstream: usize,
    /// Its record and its list's.
    pub slot: u32,
    pub group: Option<u32>,
    /// As configured.
    pub configured: Settings,
    /// Where it is asked: a `sockaddr`.
    pub address: Vec<u8>,
    /// Its printable address, for messages.
    pub label: String,
    /// What is sent.
    pub request: Vec<u8>,
    /// What TLS calls it.
    pub name: Option<CString>,
    /// Its place within an interval, 0 to 1.
    pub phase: f64,
    /// When to look at it again, µs.
    pub wake: Micros,
    /// A connection that its last probe has left.
    pub kept: Option<(Connection, usize)>,
    /// The probe under way.
    pub probe: Option<usize>,
}

impl Watched {
    /// All upstreams with checks.
    pub fn all(main: &MainConf) -> Vec<Self> {
        let one = |us: &*mut ngx_http_upstream_srv_conf_t| {
            // SAFETY: upstreams and their settings live as long as the process uses the configuration, which a worker does to
            // its end; the settings are not changed any more.
            let (conf, name) = unsafe { (ffi::upstream_conf(*us).as_ref()?, ffi::bytes((**us).host)) };
            let check: &'static Check = conf.check.as_ref()?;
            Some(Self { us: *us, params: conf.params, check, name, read: None })
        };
        main.upstreams.iter().filter_map(one).collect()
    }

    /// nginx's lists, primary and backup.
    fn lists(&self) -> [*mut ngx_http_upstream_rr_peers_t; 2] {
        // SAFETY: as above; after start the lists are where they stay, and the link to the backups is set once.
        unsafe {
            let primary = (*self.us).peer.data.cast::<ngx_http_upstream_rr_peers_t>();
            [primary, primary.as_ref().map_or(core::ptr::null_mut(), |list| list.next)]
        }
    }

    /// Whether the lists are still as they were when they were read.
    pub fn is_unchanged(&self) -> bool {
        // SAFETY: null or live lists, no lock is held.
        let now = self.lists().map(|list| if list.is_null() { 0 } else { unsafe { RrPeers::read(list) }.config() });
        self.read == Some(now)
    }

    /// Reads the lists: calls `with` for every server that has a record. Says whether all have.
    pub fn read(&mut self, view: View, upstream: usize, mut with: impl FnMut(u64, Target)) -> bool {
        let (lists, mut complete) = (self.lists(), true);
        let mut counters = [0; 2];
        for ((list, counter), backup) in lists.into_iter().zip(&mut counters).zip([false, true]) {
            if list.is_null() {
                continue;
            }
            // SAFETY: a live list, no lock is held. The counter first: what changes after it is read again.
            let servers = unsafe {
                *counter = RrPeers::read(list).config();
                Servers::read(list, backup)
            };
            let Some(servers) = servers else {
                complete = false;
                continue;
            };
            let group = view.known_group(group_key(self.name, backup, self.params.metric));
            let count = servers.iter().count().max(1) as f64;
            for (place, server) in servers.iter().enumerate() {
                let key = servers.key(server, self.name, self.params.metric);
                match view.known(key) {
                    Some(slot) => {
                        let phase = place as f64 / count;
                        with(key, self.target((upstream, slot, group), (&servers, server), phase));
                    }
                    None => complete = false,
                }
            }
        }
        self.read = Some(counters);
        complete
    }

    fn target(
        &self,
        (upstream, slot, group): (usize, u32, Option<u32>),
        (servers, server): (&Servers, &Server),
        phase: f64,
    ) -> Target {
        let check = self.check;
        let mut address = servers.sockaddr(server).to_vec();
        let port = port_of(&mut address, check.port);
        let host = check.host.clone().unwrap_or_else(|| authority(servers.name(server), port, check.tls));
        let named = check.host.as_deref().unwrap_or_else(|| servers.name(server));
        let request = match check.kind {
            Kind::Http => http::request(&check.method, &check.uri, &host),
            Kind::Grpc => grpc::request(&check.service, &host, check.tls),
            Kind::Tcp => Vec::new(),
        };
        Target {
            upstream,
            slot,
            group,
            configured: server.configured,
            address,
            label: String::from_utf8_lossy(servers.address(server)).into_owned(),
            request,
            name: server_name(named).and_then(|name| CString::new(name).ok()),
            phase,
            wake: 0,
            kept: None,
            probe: None,
        }
    }
}

/// The port of an address, after `other` has taken its place; none for a unix socket.
fn port_of(address: &mut [u8], other: Option<u16>) -> Option<u16> {
    let family = address.first_chunk::<2>().map(|bytes| i32::from(u16::from_ne_bytes(*bytes)))?;
    if family != libc::AF_INET && family != libc::AF_INET6 {
        return None;
    }
    let place = address.get_mut(PORT)?;
    if let Some(port) = other {
        place.copy_from_slice(&port.to_be_bytes());
    }
    place.first_chunk::<2>().map(|bytes| u16::from_be_bytes(*bytes))
}

impl Target {
    /// When a server that has just come into view is looked at first.
    pub fn first_look(&self, params: &Params, now: Micros) -> Micros {
        let within = params.check.map_or(0, |check| check.interval).min(FIRST_WITHIN);
        now.saturating_add((within as f64 * self.phase) as Micros)
    }

    /// Its record, unless that is another server's by now.
    pub fn record(&self, view: View, key: u64) -> Option<(&'static Peer, &'static Group)> {
        let own = view.known(key) == Some(self.slot);
        let peer = view.record(self.slot).filter(|_| own)?;
        Some((peer, view.shared(self.group).group))
    }

    /// How to talk to it.
    pub fn manner<'a>(&'a self, check: &'a Check, tls: Option<&'static Tls>, handler: Handler) -> Manner<'a> {
        let tls = tls.filter(|_| check.tls);
        Manner { check, request: &self.request, tls, name: self.name.as_deref(), handler }
    }

    /// Takes over what is under way at the same server as it was read before.
    pub fn succeed(&mut self, old: Self) {
        self.wake = old.wake;
        self.probe = old.probe;
        // Where the server is asked may have changed with its name's address.
        self.kept = old.kept.filter(|_| old.address == self.address && old.request == self.request);
    }
}

/// The servers by key, and what they were read from.
#[derive(Default)]
pub struct Targets {
    pub by_key: BTreeMap<u64, Target>,
    /// The zone's counter of changes when they were read.
    epoch: Option<u32>,
    /// Records were missing: when to look again.
    again: Option<Micros>,
}

/// Missing records are looked for in this time: a full zone frees records by the second.
const RETRY: Micros = 2 * SECOND;

impl Targets {
    /// Reads all lists again if any has changed. Returns the keys of those that have come, and what is left of those that went.
    pub fn follow(&mut self, watched: &mut [Watched], view: View, now: Micros) -> Option<(Vec<u64>, Vec<Target>)> {
        let unchanged = self.epoch == Some(zone::epoch()) && watched.iter().all(Watched::is_unchanged);
        if unchanged && self.again.is_none_or(|again| now < again) {
            return None;
        }
        self.epoch = Some(zone::epoch());
        let mut old = core::mem::take(&mut self.by_key);
        let (mut new, mut complete) = (Vec::new(), true);
        for (upstream, one) in watched.iter_mut().enumerate() {
            let params = one.params;
            complete &= one.read(view, upstream, |key, mut target| {
                match old.remove(&key) {
                    Some(before) => target.succeed(before),
                    None => {
                        target.wake = target.first_look(&params, now);
                        new.push(key);
                    }
                }
                self.by_key.insert(key, target);
            });
        }
        self.again = (!complete).then(|| now.saturating_add(RETRY));
        Some((new, old.into_values().collect()))
    }
}
