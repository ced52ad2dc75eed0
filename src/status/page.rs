//! The status as a page for people: one HTML text without anything from elsewhere, with a table that needs no scripts.
//!
//! Head and tail are put together when the module is built (`page/assemble.rs`, from the other files there); between them stands
//! how every server is at this moment. Names may be any bytes and are escaped; nothing of the request is shown. The scripts ask the
//! same location for JSON and take over from there. Not here: which format is answered (`status.rs`).

use core::fmt::{self, Display};
use std::io::{self, Write};

use nginx_sys::{NGX_HTTP_INTERNAL_SERVER_ERROR, NGX_HTTP_OK, NGX_LOG_ERR, ngx_cycle, ngx_http_request_t, ngx_int_t};
use ngx::{ngx_log_error, ngx_string};

use super::group::{Depth, Group};
use super::query::Query;
use super::row::Row;
use super::send::{self, Chain};
use super::text::{Clock, Date, text};
use crate::ffi;

/// Up to the place of the table.
const HEAD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/page_head.html"));
/// What follows it.
const TAIL: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/page_tail.html"));
/// Nothing but the page's own script and style runs, and data comes from its own server only.
const POLICY: &str = include_str!(concat!(env!("OUT_DIR"), "/page_policy.txt"));

/// Headings of the table; the class of their cells; whether they are figures.
const COLUMNS: [(&str, &str, bool); 10] = [
    ("Server", "c-server", false),
    ("State", "c-state", false),
    ("Latency now", "c-latency", true),
    ("p50", "c-p50", true),
    ("p99", "c-p99", true),
    ("In flight", "c-flight", true),
    ("Traffic", "c-share", true),
    ("Per second", "c-rate", true),
    ("Failures", "c-failures", true),
    ("Last change", "c-change", false),
];

/// Answers with the page.
///
/// # Safety
/// The request is live, its body is read or discarded, and nothing was sent yet.
pub unsafe fn send(r: &mut ngx_http_request_t, query: &Query) -> ngx_int_t {
    // SAFETY: the pool is the request's; values of headers are static.
    unsafe {
        let mut chain = Chain::new(r.pool);
        if let Err(error) = page(&mut chain, query) {
            ngx_log_error!(NGX_LOG_ERR, (*r.connection).log, "labor: the status page cannot be written: {error}");
            return NGX_HTTP_INTERNAL_SERVER_ERROR as ngx_int_t;
        }
        let headers = [
            (ngx_string!("Content-Security-Policy"), ffi::ngx_str(POLICY.as_bytes())),
            (ngx_string!("X-Content-Type-Options"), ngx_string!("nosniff")),
            (ngx_string!("Referrer-Policy"), ngx_string!("no-referrer")),
            (ngx_string!("Vary"), ngx_string!("Accept")),
        ];
        for (name, value) in headers {
            if send::header(r, name, value).is_none() {
                return NGX_HTTP_INTERNAL_SERVER_ERROR as ngx_int_t;
            }
        }
        send::send(r, NGX_HTTP_OK, ngx_string!("text/html; charset=utf-8"), chain)
    }
}

fn page(out: &mut impl Write, query: &Query) -> io::Result<()> {
    out.write_all(HEAD)?;
    let clock = Clock::read();
    // SAFETY: the configuration is this process's own, no other reference to it is in use.
    let upstreams = unsafe { ffi::cycle_conf(ngx_cycle) }.map_or(&[] as &[_], |main| main.upstreams.as_slice());
    writeln!(out, "<p class=\"note\">As of {}.</p>", Date(clock.wall))?;
    for us in upstreams {
        // SAFETY: upstreams of the running configuration, which are not changed any more.
        if let Some(group) = unsafe { Group::read(*us, |name| query.has_upstream(name), Depth::All, clock) } {
            table(out, &group)?;
        }
    }
    out.write_all(TAIL)
}

fn table(out: &mut impl Write, group: &Group) -> io::Result<()> {
    let name = text(group.name);
    let name = Escaped(&name);
    write!(out, "<section><h2><span class=\"title\">{name}</span></h2><div class=\"body\">")?;
    write!(out, "<table role=\"table\" class=\"servers\"><caption>Servers of {name}</caption>")?;
    write!(out, "<thead role=\"rowgroup\"><tr role=\"row\">")?;
    for (title, _, figure) in COLUMNS {
        let class = if figure { " class=\"n\"" } else { "" };
        write!(out, "<th scope=\"col\" role=\"columnheader\"{class}>{title}</th>")?;
    }
    writeln!(out, "</tr></thead><tbody role=\"rowgroup\">")?;
    for row in group.rows() {
        line(out, &row)?;
    }
    writeln!(out, "</tbody></table></div></section>")
}

fn line(out: &mut impl Write, row: &Row) -> io::Result<()> {
    let own = row.own(row.state());
    let (level, word) = state(own.state);
    write!(out, "<tr role=\"row\" class=\"level{level}\">")?;
    let (name, address) = (text(row.servers.name(row.server)), text(row.servers.address(row.server)));
    write!(out, "<th scope=\"row\" role=\"rowheader\" class=\"c-server\">")?;
    write!(out, "<span class=\"name server\">{}</span>", Escaped(&name))?;
    if address != name {
        write!(out, " <span class=\"note\">{}</span>", Escaped(&address))?;
    }
    if row.servers.backup {
        write!(out, " <span class=\"note\">backup</span>")?;
    }
    if own.weight.effective != 1 || own.weight.source != "configuration" {
        write!(out, " <span class=\"note\">weight {}", own.weight.effective)?;
        if own.weight.source != "configuration" {
            write!(out, " ({}, configured {})", own.weight.source.replace('_', " "), own.weight.configured)?;
        }
        write!(out, "</span>")?;
    }
    write!(out, "</th><td role=\"cell\" class=\"c-state\"><span class=\"tag level{level}\">{word}</span></td>")?;
    let change = own.last_change.as_ref();
    let figures: [&dyn Display; 8] = [
        &Millis(own.latency_us),
        &Millis(own.p50_us),
        &Millis(own.p99_us),
        &own.in_flight,
        &format_args!("{:.1} %", own.share * 100.0),
        &format_args!("{:.1}", own.requests_per_second),
        &own.failures.total,
        &Change(change.map(|change| (change.reason, change.seconds_ago))),
    ];
    for ((title, class, figure), value) in COLUMNS.iter().skip(2).zip(figures) {
        let n = if *figure { " n" } else { "" };
        write!(out, "<td role=\"cell\" class=\"{class}{n}\" data-label=\"{title}\">{value}</td>")?;
    }
    writeln!(out, "</tr>")
}

/// How bad a state is (0 well, 1 worth knowing, 2 needs someone) and its word, as the scripts have them (`words.js`).
fn state(code: &'static str) -> (u8, &'static str) {
    match code {
        "up" => (0, "up"),
        "lowered" => (2, "failing"),
        "unavail" => (2, "unavailable"),
        "drain" => (1, "draining"),
        other => (1, other),
    }
}

/// Microseconds as milliseconds.
struct Millis(Option<f64>);

impl Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.map(|us| us / 1e3) {
            None => f.write_str("–"),
            Some(ms) if ms < 1.0 => write!(f, "{ms:.2} ms"),
            Some(ms) if ms < 20.0 => write!(f, "{ms:.1} ms"),
            Some(ms) => write!(f, "{ms:.0} ms"),
        }
    }
}

/// Why and when the standing changed.
struct Change(Option<(&'static str, f64)>);

impl Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("–"),
            Some((reason, ago)) => {
                let (ago, unit) = match ago {
                    ..100.0 => (ago, "s"),
                    ..6000.0 => (ago / 60.0, "min"),
                    _ => (ago / 3600.0, "h"),
                };
                write!(f, "{} <span class=\"note\">{ago:.0} {unit} ago</span>", reason.replace('_', " "))
            }
        }
    }
}

/// Text in which nothing can begin or end an element or an attribute.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some((before, special)) =
            rest.find(['&', '<', '>', '"', '\'', '\0']).and_then(|i| rest.split_at_checked(i))
        {
            f.write_str(before)?;
            let mut chars = special.chars();
            f.write_str(match chars.next() {
                Some('&') => "&amp;",
                Some('<') => "&lt;",
                Some('>') => "&gt;",
                Some('"') => "&quot;",
                Some('\'') => "&#39;",
                _ => "\u{fffd}",
            })?;
            rest = chars.as_str();
        }
        f.write_str(rest)
    }
}
