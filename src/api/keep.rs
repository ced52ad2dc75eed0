//! Keeping what is set: into the state file, by whichever worker changed something, before the change is answered.
//!
//! The file is always a picture of the shared memory, taken while no other worker writes. So it does not matter who writes
//! it: a change is kept as soon as a picture taken after it is. A worker that finds another one writing asks again in a
//! moment; one that dies leaves the rest to the next tick of any other.

use core::cell::Cell;
use core::ffi::c_void;
use std::collections::HashSet;

use labor_api_format::state::Entry;
use labor_core::Metric;
use labor_core::time::{Micros, SECOND, since};
use nginx_sys::{
    NGX_LOG_ERR, ngx_add_timer, ngx_array_t, ngx_cycle, ngx_cycle_t, ngx_del_timer, ngx_event_t,
    ngx_http_finalize_request, ngx_http_request_t, ngx_http_run_posted_requests, ngx_http_upstream_rr_peers_t,
    ngx_http_upstream_server_t, ngx_http_upstream_srv_conf_t, ngx_msec_t, ngx_pcalloc, ngx_pool_cleanup_add,
};
use ngx::ngx_log_error;

use super::answer::{self, Refusal};
use super::change::{Step, conclude};
use super::request::Request;
use crate::servers::Servers;
use crate::state::{self, Saved};
use crate::zone::{self, View};
use crate::{ffi, worker};

/// How soon another worker that is writing is asked again, ms: writing takes a few.
const AGAIN: ngx_msec_t = 3;
/// When that is given up.
const PATIENCE: Micros = 5 * SECOND;
/// Failures without a request are told this often.
const TELL: Micros = 60 * SECOND;

thread_local! {
    static TOLD: Cell<Option<Micros>> = const { Cell::new(None) };
}

/// What came of keeping a change.
pub enum Kept {
    /// It is in the file, or there is none.
    Yes,
    /// Not yet.
    Busy,
    /// It cannot be kept, and why.
    No(String),
}

/// A worker starts: says early what would go wrong at the first change.
pub fn init_process(cycle: *mut ngx_cycle_t) {
    if state::path().is_none() || zone::view().is_none() {
        return;
    }
    // SAFETY: nginx's number of the process, and a cycle with a log.
    let (first, log) = unsafe { (nginx_sys::ngx_worker == 0, (*cycle).log) };
    // SAFETY: the configuration is this process's own.
    let written = unsafe { ffi::cycle_conf(cycle) }.is_some_and(|main| !main.doors.is_empty());
    if let Some(failure) = (first && written).then(state::cannot_write).flatten() {
        ngx_log_error!(
            NGX_LOG_ERR,
            log,
            "labor: what is set through \"labor_api\" will not survive a restart: {failure}"
        );
    }
}

/// Once a second.
pub fn each_second(now: Micros) {
    let Some(view) = zone::view().filter(|_| state::path().is_some()) else { return };
    if view.saved() >= view.controls() || worker::is_leaving() || !view.is_newest() {
        return;
    }
    if let Kept::No(reason) = write(view)
        && TOLD.get().is_none_or(|at| since(at, now) > TELL)
    {
        TOLD.set(Some(now));
        // SAFETY: nginx's own cycle.
        let log = unsafe { (*ngx_cycle).log };
        ngx_log_error!(NGX_LOG_ERR, log, "labor: what is set at run time is not saved: {reason}");
    }
}

/// Keeps everything set up to `version`, asked for the first time `waited` µs ago.
pub fn keep(version: u64, waited: Micros) -> Kept {
    let Some(view) = zone::view() else { return Kept::Yes };
    if state::path().is_none() || view.saved() >= version {
        return Kept::Yes;
    }
    match write(view) {
        Kept::Busy if waited >= PATIENCE => Kept::No("another process has locked the directory".into()),
        kept => kept,
    }
}

fn write(view: View) -> Kept {
    // A worker from before a reload does not know which servers there are now: it drops nothing, and those that do write again.
    let old = worker::is_leaving() || !view.is_newest();
    let mut version = 0;
    let saved = state::save(|before| {
        // The counter first: what changes in between is in the next picture at the latest.
        version = view.controls();
        picture(view, &before, old)
    });
    match saved {
        Saved::Yes => {
            if !old {
                view.note_saved(version);
            }
            Kept::Yes
        }
        Saved::Busy => Kept::Busy,
        Saved::No(failure) => Kept::No(failure.to_string()),
    }
}

/// A list that the configuration has.
struct Known<'a> {
    upstream: &'a [u8],
    backup: bool,
    /// Its servers' names as configured; none when it could not be read.
    names: Option<HashSet<&'a [u8]>>,
}

/// What is set for every server there is, and what the file says of those that are not there at present but are configured
/// (their names have other addresses); with `all`, of those that are not configured, too.
fn picture(view: View, before: &[Entry], all: bool) -> Vec<Entry> {
    let (mut entries, mut seen) = (Vec::new(), HashSet::new());
    let mut kept: Vec<Known<'_>> = Vec::new();
    for us in super::upstreams() {
        // SAFETY: an upstream of the running configuration: its lists stay where they are, no lock is held.
        let (upstream, metric, lists) = unsafe {
            let Some(conf) = ffi::upstream_conf(*us).as_ref() else { continue };
            let primary = (**us).peer.data.cast::<ngx_http_upstream_rr_peers_t>();
            let backup = primary.as_ref().map_or(core::ptr::null_mut(), |list| list.next);
            let lists = [(Servers::read(primary, false), false), (Servers::read(backup, true), true)];
            (ffi::bytes((**us).host), conf.params.metric, lists)
        };
        for (servers, backup) in lists {
            // A list that cannot be read keeps everything.
            let names = servers.is_some().then(|| configured(*us, backup));
            kept.push(Known { upstream, backup, names });
            for entry in servers.iter().flat_map(|servers| one_list(view, servers, upstream, metric)) {
                seen.insert(entry.key(Metric::LastByte));
                entries.push(entry);
            }
        }
    }
    let absent = |entry: &&Entry| {
        let list = kept.iter().find(|list| list.upstream == entry.upstream && list.backup == entry.backup);
        let configured =
            list.is_some_and(|list| list.names.as_ref().is_none_or(|names| names.contains(entry.name.as_slice())));
        (all || configured) && !seen.contains(&entry.key(Metric::LastByte))
    };
    entries.extend(before.iter().filter(absent).cloned());
    entries
}

/// What is set for the servers of one list, those included for which it is nothing.
fn one_list(view: View, servers: &Servers, upstream: &[u8], metric: Metric) -> Vec<Entry> {
    let one = |server| {
        // Without a record, or before that has looked into the file, the file knows better.
        let slot = view.known(servers.key(server, upstream, metric))?;
        let control = view.record(slot).filter(|peer| peer.is_settled())?.control();
        Some(Entry {
            upstream: upstream.to_vec(),
            backup: servers.backup,
            name: servers.name(server).to_vec(),
            address: servers.address(server).to_vec(),
            ordinal: server.ordinal,
            control,
        })
    };
    servers.iter().filter_map(one).collect()
}

/// The names of an upstream's servers as configured.
fn configured<'a>(us: *mut ngx_http_upstream_srv_conf_t, backup: bool) -> HashSet<&'a [u8]> {
    // SAFETY: an upstream of the running configuration: its array of servers, or null without.
    let lines = unsafe {
        (*us).servers.cast::<ngx_array_t>().as_ref().map_or(&[][..], |a| a.as_slice::<ngx_http_upstream_server_t>())
    };
    let own = lines.iter().filter(|line| (line.backup() != 0) == backup);
    // SAFETY: names live as long as the configuration.
    own.map(|line| unsafe { ffi::bytes(line.name) }).collect()
}

/// A request that waits until its change is kept.
#[repr(C)]
struct Pending {
    /// First, so that nginx's pointer to the event is one to this.
    event: ngx_event_t,
    request: *mut ngx_http_request_t,
    version: u64,
    since: Micros,
}

/// Has the request wait until everything up to `version` is kept.
pub fn wait(request: &Request<'_>, version: u64) -> Step {
    let r = request.as_ptr();
    // SAFETY: the request is live; zeros are a valid event; its memory lasts as long as the request, whose end takes the timer
    // away: nginx ends one that waits when `worker_shutdown_timeout` is over.
    unsafe {
        let pending = ngx_pcalloc((*r).pool, size_of::<Pending>()).cast::<Pending>();
        let (Some(pending), Some(end)) = (pending.as_mut(), ngx_pool_cleanup_add((*r).pool, 0).as_mut()) else {
            return Step::Answered(answer::refuse(request, &Refusal::not_saved("no memory")));
        };
        end.data = (&raw mut *pending).cast();
        end.handler = Some(cancel);
        (pending.request, pending.version, pending.since) = (r, version, worker::now());
        pending.event.handler = Some(again);
        pending.event.data = (*r).connection.cast();
        pending.event.log = (*(*r).connection).log;
        ngx_add_timer(&raw mut pending.event, AGAIN);
    }
    Step::Waiting
}

/// The request ends, by whomever.
unsafe extern "C" fn cancel(pending: *mut c_void) {
    // SAFETY: `wait` put it there; the request's memory is still whole.
    unsafe {
        let event = &raw mut (*pending.cast::<Pending>()).event;
        if (*event).timer_set() != 0 {
            ngx_del_timer(event);
        }
    }
}

/// The time is over.
unsafe extern "C" fn again(event: *mut ngx_event_t) {
    // SAFETY: `wait` made the event the first part of what waits; the request is live.
    unsafe {
        let pending = &mut *event.cast::<Pending>();
        let (r, connection) = (pending.request, (*pending.request).connection);
        let kept = keep(pending.version, since(pending.since, worker::now()));
        if matches!(kept, Kept::Busy) {
            ngx_add_timer(event, AGAIN);
            return;
        }
        let Some(request) = Request::new(r) else { return };
        ngx_http_finalize_request(r, conclude(&request, &kept));
        // As nginx does after every event of a request; the connection's place outlives it.
        ngx_http_run_posted_requests(connection);
    }
}
