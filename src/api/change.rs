//! Making a change: what a request asks for becomes one word in a server's record, and one line in the log.
//!
//! The change holds at once, in every worker; keeping it over a restart is `api/keep.rs`.

use core::fmt::{self, Display};

use labor_api_format::route::Route;
use labor_api_format::{body, text::Quoted};
use labor_core::control::{Control, Patch, Settings, Source, State};
use labor_core::events::{Event, Note, note as note_event};
use labor_core::key::group_key;
use labor_core::ramp;
use nginx_sys::{NGX_HTTP_PATCH, NGX_LOG_NOTICE, ngx_int_t};
use ngx::ngx_log_error;

use super::answer::{self, Refusal};
use super::keep::{self, Kept};
use super::request::Request;
use super::server::{find, keys};
use crate::status::{Clock, Depth, Group, Row};
use crate::zone::{self, View};
use crate::{state, worker};

/// How far a change has come.
pub enum Step {
    /// The request is answered, with this result for nginx.
    Answered(ngx_int_t),
    /// It is to be answered once the change is kept.
    Waiting,
}

/// Makes the change that the request asks for, and answers if it is kept already.
pub fn begin(request: &Request<'_>, route: Route<'_>) -> Step {
    match make(request, route) {
        Err(refusal) => Step::Answered(answer::refuse(request, &refusal)),
        Ok(None) => Step::Answered(answer::nothing(request)),
        Ok(Some(version)) => match keep::keep(version, 0) {
            Kept::Busy => keep::wait(request, version),
            kept => Step::Answered(conclude(request, &kept)),
        },
    }
}

/// Answers a change that is kept, or cannot be.
pub fn conclude(request: &Request<'_>, kept: &Kept) -> ngx_int_t {
    match (kept, super::route(request)) {
        (Kept::No(reason), _) => answer::refuse(request, &Refusal::not_saved(reason)),
        (_, Route::Server(upstream, id) | Route::Overrides(upstream, id)) => answer::server(request, upstream, id),
        (_, route) => answer::refuse(request, &Refusal::path(route)),
    }
}

/// The change itself; the counter that says when it is in the state file, if it belongs there.
fn make(request: &Request<'_>, route: Route<'_>) -> Result<Option<u64>, Refusal> {
    let view = zone::view().ok_or_else(Refusal::no_memory)?;
    if view.is_superseded(worker::is_leaving(), worker::now()) {
        return Err(Refusal::reloading());
    }
    match route {
        Route::Server(upstream, id) => {
            let text = request.body().map_err(|error| Refusal::unreadable(&error))?;
            set(request, view, (upstream, id), &body::parse(&text)?).map(Some)
        }
        Route::Overrides(upstream, id) => set(request, view, (upstream, id), &Patch::CLEAR).map(Some),
        Route::Statistics(upstream) => forget(request, view, upstream).map(|()| None),
        other => Err(Refusal::path(other)),
    }
}

/// Fulfils `patch` for one server.
fn set(request: &Request<'_>, view: View, (upstream, id): (usize, &[u8]), patch: &Patch) -> Result<u64, Refusal> {
    let clock = Clock::read();
    let group = answer::group(upstream, Depth::Counters, clock).ok_or_else(|| Refusal::path(Route::NoUpstream))?;
    let row = find(&group, id)?;
    let (key, other) = keys(&group, &row);
    let slot = view.peer(key, clock.now).ok_or_else(Refusal::no_memory)?;
    state::settle(view, slot, key, other);
    let (old, new) = view.set_control(slot, key, patch).ok_or_else(Refusal::no_memory)?;
    // The record under the other metric, if there is one, must not bring back an older wish.
    if let Some(slot) = view.known(other) {
        view.set_control(slot, other, patch);
    }
    if new.over(row.server.configured).state == State::Up && old.over(row.server.configured).state != State::Up {
        let list = view.known_group(group_key(group.name, row.servers.backup, group.params.metric));
        if let Some(peer) = view.record(slot) {
            ramp::begin(peer, view.shared(list).group, group.params.slow_start, clock.now);
        }
    }
    note(request, &group, &row, patch, (old, new));
    Ok(view.controls())
}

/// Has the servers of an upstream learned from anew.
fn forget(request: &Request<'_>, view: View, upstream: usize) -> Result<(), Refusal> {
    let clock = Clock::read();
    let group = answer::group(upstream, Depth::Counters, clock).ok_or_else(|| Refusal::path(Route::NoUpstream))?;
    for row in group.rows() {
        view.forget(view.known(keys(&group, &row).0));
    }
    for backup in [false, true] {
        let list = view.known_group(group_key(group.name, backup, group.params.metric));
        view.forget_group(list);
        if let Some(events) = list.and_then(|list| view.events(list)) {
            let note = Note { event: Event::Reset, source: Some(Source::Api), server: b"", before: 0, after: 0 };
            note_event(events, clock.now, &note);
        }
    }
    log(request, format_args!("upstream {}: statistics reset", Quoted(group.name)));
    Ok(())
}

/// Says who changed what.
fn note(request: &Request<'_>, group: &Group, row: &Row<'_>, patch: &Patch, (old, new): (Control, Control)) {
    let configured = row.server.configured;
    let changes = Changes { patch, configured, old, new };
    let address = row.servers.address(row.server);
    log(
        request,
        format_args!("upstream {}, server {} (id {}): {changes}", Quoted(group.name), Quoted(address), row.id),
    );
}

fn log(request: &Request<'_>, what: fmt::Arguments<'_>) {
    let (client, user) = (request.client(), request.user());
    let method = if request.method() == NGX_HTTP_PATCH { "PATCH" } else { "DELETE" };
    // SAFETY: the request is live.
    let log = unsafe { (*(*request.as_ptr()).connection).log };
    ngx_log_error!(
        NGX_LOG_NOTICE,
        log,
        "labor: api: {method} by {}, user {}, request {}: {what}",
        Quoted(client),
        Quoted(user),
        request.id()
    );
}

/// Each field that a request names, before and after.
struct Changes<'a> {
    patch: &'a Patch,
    configured: Settings,
    old: Control,
    new: Control,
}

impl Display for Changes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut field = |name: &str, wanted: bool, show: &dyn Fn(&Control, Settings) -> (String, Source)| {
            if !wanted {
                return Ok(());
            }
            let [old, new] = [&self.old, &self.new].map(|control| show(control, control.over(self.configured)));
            let ((old, from), (new, by)) = (old, new);
            write!(f, "{separator}{name} {old} ({}) -> {new} ({})", from.name(), by.name())?;
            separator = ", ";
            Ok(())
        };
        field("weight", self.patch.weight.is_some(), &|c, s| (s.weight.to_string(), c.weight_source()))?;
        field("state", self.patch.state.is_some(), &|c, s| (s.state.name().to_owned(), c.state_source()))?;
        field("max_conns", self.patch.max_conns.is_some(), &|c, s| (s.max_conns.to_string(), c.max_conns_source()))
    }
}
