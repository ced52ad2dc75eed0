//! What an attempt adds to its server's ledger: the status, bytes, times. For status pages; no pick reads it.
//!
//! Here because nginx alone knows bytes and statuses. What counts as an answer's time: in `last_byte` mode a complete answer's
//! whole time, in header mode and for tunnels the time to the header. Attempts without an answer have none.

use labor_core::ledger::Entry;
use labor_core::time::Micros;
use labor_core::{Attempt, Metric, Outcome, Peer, Receipt, Shared};
use nginx_sys::{ngx_http_upstream_t, off_t};

use crate::zone::View;

/// The server that an attempt is at, as its ledger is found.
pub type Place = Option<(u32, &'static Peer)>;

/// The header came at `now`: where that is what is measured, its time counts. To be called once an attempt.
pub fn header(view: View, shared: Shared<'static>, attempt: &Attempt, measured: bool, now: Micros) {
    if measured && let Some(ledger) = attempt.record(shared).and_then(|(slot, peer)| view.ledger(slot, peer)) {
        ledger.histogram.count(attempt.age(now));
    }
}

/// The attempt at `place` is over. `status`: of its header, if one came; `tunnel`: the connection was upgraded.
///
/// # Safety
/// `u` is the live upstream object of the attempt.
pub unsafe fn finish(
    view: View,
    place: Place,
    u: *mut ngx_http_upstream_t,
    (status, tunnel, metric): (Option<u16>, bool, Metric),
    (outcome, receipt): (Outcome, &Receipt),
) {
    let Some(ledger) = place.and_then(|(slot, peer)| view.ledger(slot, peer)) else { return };
    let bytes = |count: off_t| u64::try_from(count).unwrap_or(0);
    // SAFETY: null or nginx's record of this attempt.
    let (sent, received) =
        unsafe { (*u).state.as_ref() }.map_or((0, 0), |s| (bytes(s.bytes_sent), bytes(s.bytes_received)));
    let failure = match outcome {
        Outcome::Fail(kind) => Some(kind),
        _ => None,
    };
    let complete = matches!(outcome, Outcome::Pass | Outcome::Refused) || status.is_some() && is_status(outcome);
    let total = (complete && !tunnel).then_some(receipt.total);
    if let Some(total) = total.filter(|_| metric == Metric::LastByte) {
        ledger.histogram.count(total);
    }
    let status = status.unwrap_or(0);
    ledger.book(&Entry { status, sent, received, header: receipt.header, total, failure });
}

/// Whether the answer as such was complete, and only its status was bad.
fn is_status(outcome: Outcome) -> bool {
    outcome == Outcome::Fail(labor_core::Failure::Status)
}
