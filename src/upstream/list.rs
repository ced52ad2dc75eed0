//! This worker's view of one list of servers (primary or backup): who is in it, and how each stands for a request.
//!
//! Here nginx's linked list meets the core's `Balancer`: members are read anew whenever nginx's counter of changes moved, so
//! that a change of DNS between two steps of a request is followed and not answered with an error. What is read under a lock is
//! numbers and hashes into memory reserved before. The order of the steps of a request is `select.rs`.

use labor_core::key::{Identity, group_key, number_equals, peer_key};
use labor_core::time::{Micros, SECOND};
use labor_core::{Attempt, Balancer, Candidate, Choice, Fit, Member, Params, Shared};
use nginx_sys::{ngx_http_upstream_rr_peers_t, ngx_uint_t, time_t};

use super::stand::{UNFIT, stand};
use super::tried::Tried;
use crate::ffi::{self, RrPeer, RrPeers};
use crate::zone::{self, View};

/// How often a list is read again when it changes under our hands; more changes than this in a row and round robin takes over.
const ATTEMPTS: usize = 4;
/// How long a server without a record waits for the next try to get one: a full zone frees records by the second.
const RETRY: Micros = SECOND;

/// Both lists of an upstream.
pub struct Lists {
    pub primary: List,
    pub backup: List,
}

impl Lists {
    /// Lists not yet read; `seeds` start the balancers' phases.
    pub fn new(params: &Params, seeds: [u64; 2]) -> Self {
        let [primary, backup] = seeds;
        Self { primary: List::new(params, false, primary), backup: List::new(params, true, backup) }
    }

    /// One of the two.
    pub fn get(&mut self, backup: bool) -> &mut List {
        if backup { &mut self.backup } else { &mut self.primary }
    }
}

/// A server while the list is being read.
#[derive(Clone, Copy)]
struct Entry {
    key: u64,
    ordinal: u32,
    weight: u32,
}

/// One list.
pub struct List {
    pub balancer: Balancer,
    backup: bool,
    /// nginx's list and its counter of changes as of the last reading.
    pub(super) read: Option<(*mut ngx_http_upstream_rr_peers_t, ngx_uint_t)>,
    /// The list's record.
    group: Option<u32>,
    /// Some record is missing: when to ask again.
    retry_at: Option<Micros>,
    /// The zone's counter of changes that the records belong to.
    epoch: u32,
    /// What follows has one entry per server, in the list's order.
    pub(super) keys: Vec<u64>,
    pub(super) candidates: Vec<Candidate>,
    pub(super) peers: Vec<RrPeer>,
    /// Memory for reading the list.
    entries: Vec<Entry>,
    order: Vec<(u64, u32)>,
}

/// What came of taking a chosen server.
pub enum Taken {
    /// It is ours, with this key, and the attempt is counted.
    Yes(RrPeer, u64, Attempt),
    /// It became full or went down since the scan.
    Full,
    /// The list changed since the scan.
    Changed,
}

/// What a scan needs to know.
pub struct Scan<'a> {
    pub list: *mut ngx_http_upstream_rr_peers_t,
    pub host: &'a [u8],
    pub tried: &'a Tried,
    pub view: View,
    pub now: Micros,
    /// nginx's clock, s.
    pub time: time_t,
}

impl List {
    fn new(params: &Params, backup: bool, seed: u64) -> Self {
        Self {
            balancer: Balancer::new(*params, seed),
            backup,
            read: None,
            group: None,
            retry_at: None,
            epoch: 0,
            keys: Vec::new(),
            candidates: Vec::new(),
            peers: Vec::new(),
            entries: Vec::new(),
            order: Vec::new(),
        }
    }

    /// The shared memory as this list's picks and attempts see it.
    pub fn shared(&self, view: View) -> Shared<'static> {
        view.shared(self.group)
    }

    /// How many servers it has.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Reads how every server stands for a request, and the list itself first if it changed. `None` when that cannot be had.
    pub fn scan(&mut self, scan: &Scan<'_>) -> Option<()> {
        if self.read.is_some() && (self.epoch != zone::epoch() || self.retry_at.is_some_and(|at| scan.now >= at)) {
            self.claim(scan.host, scan.view, scan.now);
        }
        for _ in 0..ATTEMPTS {
            {
                // SAFETY: the list belongs to the upstream of a request under way; no other lock is held.
                let list = unsafe { RrPeers::read(scan.list) };
                if self.read == Some((scan.list, list.config())) {
                    self.stand(&list, scan);
                    return Some(());
                }
            }
            self.refresh(scan)?;
        }
        None
    }

    /// Notes how every server stands. The servers are those of the last reading, which the list's counter says are still there:
    /// going along nginx's links again would wait for one after the other.
    fn stand(&mut self, list: &RrPeers, scan: &Scan<'_>) {
        if self.balancer.is_long() {
            // Whom the balancer wants to know about is looked at when it chooses.
            return;
        }
        let (single, shared) = (list.single(), scan.view.shared(self.group));
        let servers = self.peers.iter().zip(&self.keys);
        let places = self.candidates.iter_mut().zip(self.balancer.members());
        for ((peer, key), (candidate, member)) in servers.zip(places) {
            *candidate = stand((*peer, *key, member.slot), shared, scan, single);
        }
    }

    /// Reads the members anew and gives each its record; records of servers that went are released.
    pub fn refresh(&mut self, scan: &Scan<'_>) -> Option<()> {
        self.read = None;
        let config = self.read_entries(scan)?;
        let gone: Vec<(u64, Option<u32>)> =
            self.keys.iter().copied().zip(self.balancer.members().iter().map(|member| member.slot)).collect();
        self.keys.clear();
        self.keys.extend(self.entries.iter().map(|entry| entry.key));
        self.claim(scan.host, scan.view, scan.now);
        let mut listed = self.keys.clone();
        listed.sort_unstable();
        for (_, slot) in gone.iter().filter(|(key, _)| listed.binary_search(key).is_err()) {
            if let Some(slot) = slot {
                scan.view.release(*slot);
            }
        }
        self.read = Some((scan.list, config));
        Some(())
    }

    /// Asks for the records of the list and of every server.
    fn claim(&mut self, host: &[u8], view: View, now: Micros) {
        let metric = self.balancer.params().metric;
        self.epoch = zone::epoch();
        self.group = view.group(group_key(host, self.backup, metric), now);
        let members: Vec<Member> =
            self.entries.iter().map(|entry| Member { slot: view.peer(entry.key, now), weight: entry.weight }).collect();
        let complete = self.group.is_some() && members.iter().all(|member| member.slot.is_some());
        self.retry_at = (!complete).then_some(now.saturating_add(RETRY));
        let same = |(a, b): (&Member, &Member)| a.slot == b.slot && a.weight == b.weight;
        let before = self.balancer.members();
        if before.len() != members.len() || !before.iter().zip(&members).all(same) {
            self.balancer.set_members(&members);
        }
    }

    /// Reads identities and weights into `entries`; the counter of changes they belong to.
    fn read_entries(&mut self, scan: &Scan<'_>) -> Option<ngx_uint_t> {
        for _ in 0..ATTEMPTS {
            // SAFETY: as for `scan`; the lock is given back at the end of the statement.
            let number = unsafe { RrPeers::read(scan.list) }.number();
            self.reserve(number)?;
            // SAFETY: as for `scan`.
            let list = unsafe { RrPeers::read(scan.list) };
            if list.number() > number {
                continue;
            }
            self.identify(&list, scan.host, number);
            return Some(list.config());
        }
        None
    }

    /// Room for `number` servers, so that nothing is allocated under a lock.
    fn reserve(&mut self, number: usize) -> Option<()> {
        self.entries.clear();
        self.order.clear();
        self.candidates.clear();
        self.peers.clear();
        self.entries.try_reserve(number).ok()?;
        self.order.try_reserve(number).ok()?;
        self.candidates.try_reserve(number).ok()?;
        self.peers.try_reserve(number).ok()?;
        self.keys.try_reserve(number.saturating_sub(self.keys.len())).ok()
    }

    /// Hashes what makes each server itself; equal ones are numbered in the list's order.
    fn identify(&mut self, list: &RrPeers, host: &[u8], number: usize) {
        let metric = self.balancer.params().metric;
        let backup = self.backup;
        let key = |peer: RrPeer, ordinal: u32| {
            // SAFETY: the strings live and stay as they are while the list is locked, which is longer than this closure runs.
            let (name, address) = unsafe { (ffi::bytes(peer.server()), ffi::bytes(peer.name())) };
            peer_key(&Identity { upstream: host, backup, name, address, ordinal, metric })
        };
        for (index, peer) in (0u32..).zip(list.iter().take(number)) {
            let key = key(peer, 0);
            let weight = u32::try_from(peer.weight().max(0)).unwrap_or(u32::MAX);
            self.entries.push(Entry { key, ordinal: 0, weight });
            self.order.push((key, index));
        }
        let entries = &mut self.entries;
        number_equals(&mut self.order, |index, ordinal| {
            if let Some(entry) = entries.get_mut(index as usize) {
                entry.ordinal = ordinal;
            }
        });
        self.peers.extend(list.iter().take(number));
        self.candidates.extend(self.peers.iter().map(|_| UNFIT));
        for (peer, entry) in list.iter().zip(&mut self.entries).filter(|(_, entry)| entry.ordinal > 0) {
            entry.key = key(peer, entry.ordinal);
        }
    }

    /// The first server that `sticky` knows by `sid`, if a session may go on there (a draining one included).
    #[cfg(ngx_ge_1_29_6)]
    pub fn find_sid(&self, scan: &Scan<'_>, sid: &[u8]) -> Option<usize> {
        // SAFETY: as for `scan`.
        let list = unsafe { RrPeers::read(scan.list) };
        if self.read != Some((scan.list, list.config())) {
            return None;
        }
        let single = list.single();
        // SAFETY: the string lives while the list is locked.
        let index = list.iter().position(|peer| unsafe { ffi::bytes(peer.sid()) } == sid)?;
        let (peer, key) = (*self.peers.get(index)?, *self.keys.get(index)?);
        let slot = self.balancer.members().get(index)?.slot;
        let usable = peer.down() & !ffi::DRAINING == 0
            && !full(peer, self.shared(scan.view), slot)
            && (single || !peer.counted_out(scan.time))
            && !scan.tried.contains(key);
        usable.then_some(index)
    }

    /// Takes the chosen server if it still may be taken; one that may not is unfit from then on. `allowed` are the bits of
    /// `down` that do not matter.
    pub fn take(&mut self, scan: &Scan<'_>, choice: &Choice, allowed: ngx_uint_t) -> Taken {
        let index = choice.index;
        // SAFETY: as for `scan`.
        let list = unsafe { RrPeers::read(scan.list) };
        if self.read != Some((scan.list, list.config())) {
            return Taken::Changed;
        }
        let (Some(peer), Some(key), Some(candidate)) =
            (self.peers.get(index), self.keys.get(index), self.candidates.get_mut(index))
        else {
            return Taken::Changed;
        };
        let shared = scan.view.shared(self.group);
        let mut locked = list.lock(*peer);
        if full(*peer, shared, choice.slot) || peer.down() & !allowed != 0 {
            candidate.fit = Fit::Unfit;
            return Taken::Full;
        }
        locked.take(scan.time, candidate.fit == Fit::CountedOut);
        // Under the lock as well, so that nobody sees one count without the other.
        Taken::Yes(*peer, *key, Attempt::begin(shared, choice, scan.now))
    }
}

/// Whether a server has all the connections that `max_conns` allows; `slot` is its record.
pub(super) fn full(peer: RrPeer, shared: Shared<'_>, slot: Option<u32>) -> bool {
    let ours = || slot.and_then(|slot| shared.peers.get(slot as usize)).map(|peer| peer.connections());
    ffi::full(peer.max_conns(), peer.conns(), ours)
}
