//! One attempt's choice: in which order the lists are asked, and what is done with the winner.
//!
//! The order is: the server a session belongs to, that of the request's key, the best primary server, the same for the backup
//! servers, then the least bad of those that nginx counts out, primary before backup; a server the request has been to comes
//! again only if that said nothing about it. Primary servers that are led up to their share leave what is beyond it to backups. How well a server stands is the
//! core's business.

use labor_core::events::{self, Event, Note};
use labor_core::{Choice, Request};
use nginx_sys::{NGX_LOG_WARN, ngx_http_upstream_rr_peers_t, ngx_peer_connection_t, ngx_time};
use ngx::ngx_log_error;

use super::PeerData;
use super::list::{List, Scan, Taken};
use crate::ffi::RrPeer;
use crate::zone::{self, View};
use crate::{trace, worker};

/// How often a choice is made anew because the list changed under our hands.
const CHANGES: usize = 4;

/// The questions in their order; `true` is for the backups.
const PLAIN: [(Ask, bool); 4] = [(Ask::Best, false), (Ask::Best, true), (Ask::LeastBad, false), (Ask::LeastBad, true)];
/// The same with `slow_start` and backups.
const LEADING: [(Ask, bool); 5] =
    [(Ask::Warm, false), (Ask::Best, true), (Ask::Best, false), (Ask::LeastBad, false), (Ask::LeastBad, true)];

/// What came of asking.
pub enum Selected {
    /// The connection is told where to go.
    Yes,
    /// No server may be given the request.
    Busy,
    /// The lists cannot be had (no shared memory, no memory): let round robin choose.
    Unavailable,
}

/// Which question a list is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ask {
    /// The best, unless it has had what its ramp gives it: the backups can serve the request.
    Warm,
    Best,
    LeastBad,
}

/// Chooses a server for the next attempt of the request behind `data`.
pub fn select(data: &mut PeerData, pc: &mut ngx_peer_connection_t) -> Selected {
    let Some(view) = zone::view() else { return Selected::Unavailable };
    let steps: &[(Ask, bool)] = if data.leads() && data.list(true).is_some() { &LEADING } else { &PLAIN };
    loop {
        for &(ask, backup) in steps {
            match ask_list(data, pc, view, ask, backup) {
                Selected::Busy => {}
                done => {
                    if ask == Ask::LeastBad && matches!(done, Selected::Yes) {
                        tell(data, view, backup);
                    }
                    return done;
                }
            }
        }
        if !data.tried.forgive() {
            return Selected::Busy;
        }
    }
}

/// Asks one list until it has nobody or its answer could be taken.
fn ask_list(data: &mut PeerData, pc: &mut ngx_peer_connection_t, view: View, ask: Ask, backup: bool) -> Selected {
    let Some(raw) = data.list(backup) else { return Selected::Busy };
    let Some(lists) = data.lists() else { return Selected::Unavailable };
    let list = lists.get(backup);
    let now = worker::now();
    let request = Request { first: data.tried.is_empty(), safe: data.safe, backup, spare: ask == Ask::Warm };
    for _ in 0..CHANGES {
        let scan = Scan { list: raw, host: data.host(), tried: &data.tried, view, now, time: ngx_time() };
        if list.scan(&scan).is_none() {
            return Selected::Unavailable;
        }
        // Each server can turn out to be full once.
        for _ in 0..=list.len() {
            let (choice, bound) = match session(list, &scan, pc, ask) {
                Some(choice) => (choice, true),
                None => {
                    let request = (ask != Ask::LeastBad).then_some(request);
                    let Some(choice) = list.choose(&scan, request, data.key) else { break };
                    let Some(choice) = choice else { return Selected::Busy };
                    (choice, false)
                }
            };
            match list.take(&scan, &choice, bound) {
                Taken::Yes(peer, key, attempt) => {
                    data.attempt = Some(attempt);
                    begin(data, pc, &Winner { peer, key, choice, list: raw, backup });
                    return Selected::Yes;
                }
                // It is unfit now, so that the next answer is another one.
                Taken::Full => {}
                Taken::Changed => break,
            }
        }
    }
    Selected::Unavailable
}

/// Nobody was usable, and the least bad server was taken: said once, until that is over.
fn tell(data: &PeerData, view: View, backup: bool) {
    let (Some(lists), now) = (data.lists(), worker::now()) else { return };
    let list = lists.get(backup);
    if !list.shared(view).group.fail_open(now) {
        return;
    }
    if let Some(events) = list.events(view) {
        events::note(events, now, &Note { event: Event::FailOpen, source: None, server: b"", before: 0, after: 0 });
    }
    let name = String::from_utf8_lossy(data.host());
    // SAFETY: the request is the one under way.
    let log = unsafe { (*(*data.request).connection).log };
    ngx_log_error!(NGX_LOG_WARN, log, "labor: no server of upstream \"{name}\" is usable, the least bad one is used");
}

/// The server that the request's session belongs to.
#[cfg(ngx_ge_1_29_6)]
fn session(list: &mut List, scan: &Scan<'_>, pc: &ngx_peer_connection_t, ask: Ask) -> Option<Choice> {
    if ask == Ask::LeastBad || pc.hint.is_null() {
        return None;
    }
    // SAFETY: `sticky` lends the string for the time of this call.
    let index = list.find_sid(scan, unsafe { crate::ffi::bytes(*pc.hint) })?;
    let shared = list.shared(scan.view);
    list.balancer.take(shared, index, labor_core::Reason::Sticky, scan.now)
}

#[cfg(not(ngx_ge_1_29_6))]
fn session(_: &mut List, _: &Scan<'_>, _: &ngx_peer_connection_t, _: Ask) -> Option<Choice> {
    None
}

/// A server that has been taken.
struct Winner {
    peer: RrPeer,
    key: u64,
    choice: Choice,
    list: *mut ngx_http_upstream_rr_peers_t,
    backup: bool,
}

/// Fills in the connection and notes where the attempt went.
fn begin(data: &mut PeerData, pc: &mut ngx_peer_connection_t, winner: &Winner) {
    let peer = winner.peer.as_ptr();
    // Round robin's part first: its free() finds list and server there.
    data.rrp.peers = winner.list;
    data.rrp.current = peer;
    // SAFETY: taking the server counted a reference, so it lives until its free().
    unsafe {
        pc.sockaddr = (*peer).sockaddr;
        pc.socklen = (*peer).socklen;
        pc.name = &raw mut (*peer).name;
        #[cfg(ngx_ge_1_29_6)]
        {
            pc.sid = &raw mut (*peer).sid;
        }
    }
    // SAFETY: the request is the one under way.
    let pool = unsafe { (*data.request).pool };
    // Without memory the request is about to fail anyway; at worst it comes back to this server.
    data.tried.push(winner.key, pool);
    data.record = trace::begin(data.request, data.upstream, &winner.choice);
    data.backup = winner.backup;
    data.header_seen = false;
    data.held = false;
}
