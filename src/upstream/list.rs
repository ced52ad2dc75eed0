//! This worker's view of one list of servers (primary or backup): who is in it, and how each stands for a request.
//!
//! Here nginx's linked list meets the core's `Balancer`: members are read anew whenever nginx's counter of changes moved, so
//! that a change of DNS between two steps of a request is followed and not answered with an error. What is read under a lock is
//! numbers and hashes into memory reserved before. The order of the steps of a request is `select.rs`.

use labor_core::affinity::{Keyed, Secret};
use labor_core::control::Settings;
use labor_core::events::Events;
use labor_core::key::{Identity, group_key, number_equals, peer_key};
use labor_core::time::{Micros, SECOND};
use labor_core::{Attempt, Balancer, Candidate, Choice, Fit, Metric, Receipt, Shared};
use nginx_sys::{ngx_http_upstream_rr_peers_t, ngx_uint_t, time_t};

use super::rules::{Rules, closed, full, overfull};
use super::stand::{UNFIT, stand};
use super::tried::Tried;
use crate::ffi::{self, RrPeer, RrPeers};
use crate::settings::UpstreamConf;
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
    pub fn new(conf: &UpstreamConf, seeds: [u64; 2]) -> Self {
        let [primary, backup] = seeds;
        Self { primary: List::new(conf, false, primary), backup: List::new(conf, true, backup) }
    }

    /// One of the two.
    pub fn get(&mut self, backup: bool) -> &mut List {
        if backup { &mut self.backup } else { &mut self.primary }
    }
}

/// A server while the list is being read.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) key: u64,
    /// The key of the same server when the other metric is measured.
    pub(super) other: u64,
    ordinal: u32,
    pub(super) configured: Settings,
}

/// One list.
pub struct List {
    pub balancer: Balancer,
    /// Which server a key belongs to, where that counts.
    pub(super) keyed: Option<Keyed>,
    /// A secret that the configuration sets for it.
    pub(super) secret: Option<Secret>,
    backup: bool,
    /// nginx's list and its counter of changes as of the last reading.
    pub(super) read: Option<(*mut ngx_http_upstream_rr_peers_t, ngx_uint_t)>,
    /// The list's record.
    group: Option<u32>,
    /// Some record is missing: when to ask again.
    retry_at: Option<Micros>,
    /// The zone's counter of changes that the records belong to.
    epoch: u32,
    /// What is set for the servers at run time.
    pub(super) rules: Rules,
    /// What follows has one entry per server, in the list's order.
    pub(super) keys: Vec<u64>,
    pub(super) candidates: Vec<Candidate>,
    pub(super) peers: Vec<RrPeer>,
    pub(super) entries: Vec<Entry>,
    /// Memory for reading the list.
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
    fn new(conf: &UpstreamConf, backup: bool, seed: u64) -> Self {
        Self {
            balancer: Balancer::new(conf.params, seed),
            keyed: conf.hash.map(|hash| Keyed::new(hash.affinity)),
            secret: conf.hash.and_then(|hash| hash.secret),
            backup,
            read: None,
            group: None,
            retry_at: None,
            epoch: 0,
            rules: Rules::default(),
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

    /// What happened in it, where it has a record.
    pub fn events(&self, view: View) -> Option<&'static Events> {
        self.group.and_then(|group| view.events(group))
    }

    /// How many servers it has.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Reads how every server stands for a request, and the list itself first if it changed. `None` when that cannot be had.
    pub fn scan(&mut self, scan: &Scan<'_>) -> Option<()> {
        if self.read.is_some() && (self.epoch != zone::epoch() || self.retry_at.is_some_and(|at| scan.now >= at)) {
            self.claim(scan.host, scan.view, scan.now);
        } else {
            self.follow(scan.view, scan.now);
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
        let checked = self.balancer.params().check.is_some();
        let (how, shared) = ((list.single(), checked), scan.view.shared(self.group));
        let servers = self.peers.iter().zip(&self.keys);
        let places = self.candidates.iter_mut().zip(self.balancer.members());
        for (index, ((peer, key), (candidate, member))) in servers.zip(places).enumerate() {
            *candidate = stand((*peer, *key, member.slot), self.rules.of(index), shared, scan, how);
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
        let slots: Vec<Option<u32>> = self.entries.iter().map(|entry| view.peer(entry.key, now)).collect();
        let complete = self.group.is_some() && slots.iter().all(Option::is_some);
        self.retry_at = (!complete).then_some(now.saturating_add(RETRY));
        self.settle(&slots, view);
        self.apply(&slots, view, now);
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
        let other = match metric {
            Metric::LastByte => Metric::Header,
            Metric::Header => Metric::LastByte,
        };
        let key = |peer: RrPeer, ordinal: u32, metric: Metric| {
            // SAFETY: the strings live and stay as they are while the list is locked, which is longer than this closure runs.
            let (name, address) = unsafe { (ffi::bytes(peer.server()), ffi::bytes(peer.name())) };
            peer_key(&Identity { upstream: host, backup, name, address, ordinal, metric })
        };
        for (index, peer) in (0u32..).zip(list.iter().take(number)) {
            let (own, other) = (key(peer, 0, metric), key(peer, 0, other));
            self.entries.push(Entry { key: own, other, ordinal: 0, configured: peer.configured() });
            self.order.push((own, index));
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
            (entry.key, entry.other) = (key(peer, entry.ordinal, metric), key(peer, entry.ordinal, other));
        }
    }

    /// The first server that `sticky` knows by `sid`, if a session may go on there (a draining one included).
    #[cfg(ngx_ge_1_29_6)]
    pub fn find_sid(&mut self, scan: &Scan<'_>, sid: &[u8]) -> Option<usize> {
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
        let control = scan.view.control(slot);
        let usable = !closed(peer, &control, true)
            && !full(peer, &control, self.shared(scan.view), slot)
            && (single || !peer.counted_out(scan.time))
            && !self.is_out(scan, slot)
            && !scan.tried.contains(key);
        // In a long list this may be from another request.
        self.candidates.get_mut(index).filter(|_| usable)?.fit = Fit::Usable;
        Some(index)
    }

    /// Whether a breaker or checks keep requests away from the server of this record.
    #[cfg(ngx_ge_1_29_6)]
    fn is_out(&self, scan: &Scan<'_>, slot: Option<u32>) -> bool {
        let (peer, params) = (slot.and_then(|slot| scan.view.record(slot)), self.balancer.params());
        let holds = |rule: bool, of: fn(&labor_core::Peer) -> bool| rule && peer.is_some_and(of);
        holds(params.breaker.is_some(), labor_core::breaker::is_broken)
            || holds(params.check.is_some(), labor_core::check::is_unhealthy)
    }

    /// Takes the chosen server if it still may be taken; one that may not is unfit from then on. For its own
    /// `session` a server that drains may be taken.
    pub fn take(&mut self, scan: &Scan<'_>, choice: &Choice, session: bool) -> Taken {
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
        // As it is now: what was set a moment ago counts.
        let control = scan.view.control(choice.slot);
        let mut locked = list.lock(*peer);
        if full(*peer, &control, shared, choice.slot) || closed(*peer, &control, session) {
            candidate.fit = Fit::Unfit;
            self.balancer.settle(shared, &Receipt::of(choice));
            return Taken::Full;
        }
        // Under the lock as well, so that nobody sees one count without the other.
        let attempt = Attempt::begin(shared, choice, scan.now);
        if overfull(&control, &attempt) {
            let receipt = attempt.withdraw(shared);
            self.balancer.settle(shared, &receipt);
            candidate.fit = Fit::Unfit;
            return Taken::Full;
        }
        locked.take(scan.time, candidate.fit != Fit::Usable);
        Taken::Yes(*peer, *key, attempt)
    }
}
