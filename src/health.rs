//! Active checks: each server of an upstream with `labor_check` is probed at its time by one of the workers.
//!
//! Here is where nginx calls: its timer and the events of connections. Who is probed when is `health/prober.rs` with the turns
//! of `labor_core::check`, which servers there are `health/target.rs`, one probe `health/probe.rs`, the connection under it
//! `health/connection.rs`. Results meet the request path in the servers' records only.

mod connection;
mod lag;
mod probe;
mod prober;
mod target;

use core::cell::Cell;

use nginx_sys::{ngx_connection_t, ngx_cycle_t, ngx_event_t};

use crate::worker::Timer;
use crate::{worker, zone};
use prober::Prober;

thread_local! {
    /// This worker's; taken while it works, so that a callback within a callback finds nothing and does nothing.
    static PROBER: Cell<Option<Box<Prober>>> = const { Cell::new(None) };
}

static TIMER: Timer = Timer::new();

/// A worker starts: it looks after checks if there are any.
pub fn init_process(cycle: *mut ngx_cycle_t) {
    TIMER.disarm();
    let Some(view) = zone::view() else { return };
    if let Some(prober) = Prober::new(cycle, view, on_event) {
        PROBER.set(Some(Box::new(prober)));
        TIMER.arm(cycle, tick);
        // What it may do in its first moments nginx has not prepared yet.
        TIMER.after(1);
    }
}

/// A worker ends: every connection is closed, and others may take over at once.
pub fn exit_process() {
    TIMER.disarm();
    if let Some(mut prober) = PROBER.take() {
        prober.leave();
    }
}

/// Lets `work` have the prober, if there is one and it is not at work.
fn with(work: impl FnOnce(&mut Prober)) {
    if let Some(mut prober) = PROBER.take() {
        work(&mut prober);
        PROBER.set(Some(prober));
    }
}

/// Time to look who is due and who is late.
unsafe extern "C" fn tick(_event: *mut ngx_event_t) {
    with(|prober| {
        if worker::is_leaving() {
            prober.leave();
        } else {
            TIMER.after(prober.tick(worker::now()));
        }
    });
}

/// Something has happened on a connection of ours.
unsafe extern "C" fn on_event(event: *mut ngx_event_t) {
    // SAFETY: nginx calls with an event of a connection whose handlers are this one, and our number as its data.
    let number = unsafe { (*(*event).data.cast::<ngx_connection_t>()).data.addr() };
    with(|prober| prober.on_event(number, worker::now()));
}
