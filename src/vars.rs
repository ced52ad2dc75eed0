//! Log variables: what `labor` measured and why it picked, attempt by attempt.
//!
//! They line up with nginx's own `$upstream_…`: the same attempts at the same places, ", " between attempts, " : " between
//! the upstreams of internal redirects, "-" where there is nothing to say, and no value at all for a request that no `labor`
//! upstream served. Times are known once an attempt is over: in `add_header` the last one is "-". Here is only formatting; the
//! figures come from `trace.rs`.

use core::fmt::{self, Write};

use labor_core::time::{Micros, SECOND};
use nginx_sys::{
    NGX_ERROR, NGX_HTTP_VAR_NOCACHEABLE, NGX_OK, ngx_conf_t, ngx_http_add_variable, ngx_http_request_t,
    ngx_http_upstream_state_t, ngx_http_variable_value_t, ngx_int_t, ngx_pnalloc, ngx_str_t, ngx_uint_t,
};

use crate::trace::{self, Record};

/// Writes one attempt's value.
type Show = fn(&Record, &mut Text) -> fmt::Result;

/// Names and how each shows an attempt; nginx hands the position back with every request for a value.
const VARIABLES: &[(&str, Show)] = &[
    ("labor_response_time", |a, out| time(a.total, out)),
    ("labor_header_time", |a, out| time(a.header, out)),
    ("labor_latency", |a, out| time(micros(a.choice.latency), out)),
    ("labor_score", |a, out| number(a.choice.score, out)),
    ("labor_inflight", |a, out| write!(out, "{}", a.choice.queue)),
    ("labor_reason", |a, out| out.write_str(a.choice.reason.name())),
];

/// Longest value of one attempt: 20 digits of u64 seconds, the point and 6 digits.
const WIDEST: usize = 27;
/// Longest separator, " : ".
const SEPARATOR: usize = 3;
/// Scores are logarithms of seconds with penalties; beyond this they are no measurement and would only fill the log.
const SCORE_RANGE: f32 = 1e6;

/// Declares the variables. Called before the configuration is read, as variables must be.
pub fn add(cf: *mut ngx_conf_t) -> ngx_int_t {
    for (position, (name, _)) in VARIABLES.iter().enumerate() {
        let mut name = ngx_str_t { len: name.len(), data: name.as_ptr().cast_mut() };
        // SAFETY: `cf` is what nginx called the module with; the name is static and nginx copies it.
        unsafe {
            let variable = ngx_http_add_variable(cf, &raw mut name, NGX_HTTP_VAR_NOCACHEABLE as ngx_uint_t);
            if variable.is_null() {
                return NGX_ERROR as ngx_int_t;
            }
            (*variable).get_handler = Some(value);
            (*variable).data = position;
        }
    }
    NGX_OK as ngx_int_t
}

/// nginx asks for the value of the variable at `position`.
///
/// # Safety
/// nginx calls it with a live request and the place for the value.
unsafe extern "C" fn value(
    r: *mut ngx_http_request_t,
    v: *mut ngx_http_variable_value_t,
    position: usize,
) -> ngx_int_t {
    let known = VARIABLES.get(position).zip(trace::get(r));
    // SAFETY: `r` and `v` are live for this call, and nothing else refers to `*v` meanwhile.
    let (v, states) = unsafe { (&mut *v, states(r)) };
    v.set_valid(1);
    v.set_no_cacheable(0);
    v.set_not_found(1);
    let Some(((_, show), trace)) = known.filter(|_| !states.is_empty()) else {
        return NGX_OK as ngx_int_t;
    };

    let room = states.len().saturating_mul(WIDEST + SEPARATOR);
    // SAFETY: the pool of a live request; the text takes no more than what was allocated.
    let mut text = unsafe {
        let data = ngx_pnalloc((*r).pool, room).cast::<u8>();
        if data.is_null() {
            return NGX_ERROR as ngx_int_t;
        }
        Text { data, len: 0, room }
    };
    if join(states, trace, *show, &mut text).is_err() {
        return NGX_ERROR as ngx_int_t;
    }
    v.set_not_found(0);
    v.data = text.data;
    v.set_len(u32::try_from(text.len).unwrap_or(0));
    NGX_OK as ngx_int_t
}

/// nginx's own list of attempts.
///
/// # Safety
/// `r` is live, and the slice is not kept beyond the callback.
unsafe fn states<'a>(r: *mut ngx_http_request_t) -> &'a [ngx_http_upstream_state_t] {
    // SAFETY: null, or an array of `nelts` initialised records that nobody changes during the callback.
    unsafe {
        match (*r).upstream_states.as_ref() {
            Some(list) if !list.elts.is_null() => core::slice::from_raw_parts(list.elts.cast(), list.nelts),
            _ => &[],
        }
    }
}

/// One value per attempt in nginx's order; a record of nginx's without a server stands between two upstreams.
fn join(states: &[ngx_http_upstream_state_t], trace: &trace::Trace, show: Show, out: &mut Text) -> fmt::Result {
    let mut records = trace.records().peekable();
    let mut index = 0;
    while index < states.len() {
        while records.next_if(|a| a.state < index).is_some() {}
        match records.next_if(|a| a.state == index) {
            Some(record) => show(record, out)?,
            None => out.write_str("-")?,
        }
        index = index.saturating_add(1);
        match states.get(index) {
            Some(next) if next.peer.is_null() => {
                out.write_str(" : ")?;
                index = index.saturating_add(1);
            }
            Some(_) => out.write_str(", ")?,
            None => break,
        }
    }
    Ok(())
}

/// Seconds with 6 decimals.
fn time(t: Option<Micros>, out: &mut Text) -> fmt::Result {
    match t {
        Some(t) => write!(out, "{}.{:06}", t / SECOND, t % SECOND),
        None => out.write_str("-"),
    }
}

/// An estimate in seconds as whole microseconds; nothing known (0) and no number are no estimate.
fn micros(seconds: f32) -> Option<Micros> {
    (seconds.is_finite() && seconds > 0.0).then(|| (f64::from(seconds) * SECOND as f64).round() as Micros)
}

/// A score with 3 decimals.
fn number(score: f32, out: &mut Text) -> fmt::Result {
    if score.abs() <= SCORE_RANGE { write!(out, "{score:.3}") } else { out.write_str("-") }
}

/// A text of bounded length in nginx's memory.
struct Text {
    data: *mut u8,
    len: usize,
    room: usize,
}

impl Write for Text {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        let end = self.len.checked_add(s.len()).filter(|&end| end <= self.room).ok_or(fmt::Error)?;
        // SAFETY: `data` has `room` bytes, of which `len` are taken; `end` was checked against them.
        unsafe { self.data.add(self.len).copy_from_nonoverlapping(s.as_ptr(), s.len()) };
        self.len = end;
        Ok(())
    }
}
