//! `labor_check`: how and how often servers are probed, and what is held against them.
//!
//! Its words and the messages about them; probes are sent by `health.rs`, what results mean is the core's business.

use core::ffi::{c_char, c_void};
use core::ops::RangeInclusive;

use labor_core::params::CheckParams;
use labor_core::time::{Micros, SECOND};
use labor_probe_format::http::Expected;
use nginx_sys::{
    NGX_LOG_EMERG, ngx_array_t, ngx_command_t, ngx_conf_t, ngx_http_upstream_server_t, ngx_http_upstream_srv_conf_t,
};
use ngx::ngx_log_error;

use super::parameters::{ParseTime, Text, digits, invalid, micros, once, split};
use super::{CONF_ERROR, CONF_OK, location};
use crate::ffi::{self, tls};
use crate::settings::{Block, Check, Kind, MainConf, UpstreamConf};

/// Shorter intervals would be load and no check; beyond an hour nobody waits for one.
const INTERVALS: RangeInclusive<Micros> = SECOND / 10..=3600 * SECOND;
/// What no network answers within is no time-out.
const TIMEOUT_LEAST: Micros = SECOND / 100;
/// Results in a row: beyond a hundred it is no check.
const IN_A_ROW: RangeInclusive<u32> = 1..=100;
/// Longest text of a URI, host, service or body: all of it is sent or searched for at every probe.
const TEXT_MOST: usize = 255;
/// Longest method: the longest registered ones have 17 letters.
const METHOD_MOST: usize = 20;
/// What is taken for well where nothing else is said.
const STATUSES: (u16, u16) = (200, 399);

/// `labor_check [type=http|tcp|grpc] [interval=5s] …;` in `upstream {}`.
pub unsafe extern "C" fn labor_check(cf: *mut ngx_conf_t, _: *mut ngx_command_t, conf: *mut c_void) -> *mut c_char {
    // SAFETY: nginx hands over what `create_srv_conf` made for this block, inside `http {}`.
    let (Some(conf), Some(main)) = (unsafe { (conf.cast::<UpstreamConf>().as_mut(), ffi::main_conf(cf)) }) else {
        return CONF_ERROR;
    };
    if conf.check.is_some() {
        return c"is duplicate".as_ptr().cast_mut();
    }
    // SAFETY: a directive is being handled.
    match parse(unsafe { ffi::args(cf) }.skip(1), super::parse_time) {
        Ok(check) => {
            // Before or after `labor`, whose own words do not touch this one.
            conf.params.check = Some(check.params);
            conf.check = Some(check);
        }
        Err(message) => {
            ffi::conf_error(cf, format_args!("{message}"));
            return CONF_ERROR;
        }
    }
    main.checks.push(Block { conf, place: location::place(cf) });
    CONF_OK
}

/// Whether a block has the directive and cannot have it, which is logged. Call when everything is read.
pub fn is_wrong(cf: *mut ngx_conf_t, main: &MainConf) -> bool {
    // SAFETY: a configuration is being read.
    let log = unsafe { (*cf).log };
    if let Some(block) = Block::without_labor(&main.checks) {
        ngx_log_error!(
            NGX_LOG_EMERG,
            log,
            "\"labor_check\" has no effect without \"labor\" in the same upstream, add it or remove this, in {}",
            block.place
        );
        return true;
    }
    // SAFETY: upstreams of the configuration being read, complete.
    let wrong = main.upstreams.iter().find_map(|us| unsafe { portless(*us) });
    if let Some((name, conf)) = wrong {
        let place = main.checks.iter().find(|block| core::ptr::eq(block.conf, conf)).map_or("", |block| &block.place);
        ngx_log_error!(
            NGX_LOG_EMERG,
            log,
            "\"port=\" of \"labor_check\" cannot be used with server \"{}\", a unix socket has no port: remove one of them, in {}",
            Text(name),
            place
        );
    }
    wrong.is_some()
}

/// A server without ports in an upstream whose checks ask for one.
///
/// # Safety
/// `us` is an upstream of the configuration being read, complete.
unsafe fn portless<'a>(us: *mut ngx_http_upstream_srv_conf_t) -> Option<(&'a [u8], *const UpstreamConf)> {
    // SAFETY: by contract; nginx made the array with elements of this type.
    unsafe {
        let conf = ffi::upstream_conf(us).as_ref()?;
        conf.check.as_ref()?.port?;
        let servers = (*us).servers.cast::<ngx_array_t>().as_ref()?.as_slice::<ngx_http_upstream_server_t>();
        let name = servers.iter().map(|server| ffi::bytes(server.name)).find(|name| name.starts_with(b"unix:"))?;
        Some((name, conf))
    }
}

/// What was given so far.
#[derive(Default)]
struct Given<'a> {
    kind: Option<Kind>,
    interval: Option<Micros>,
    jitter: Option<Micros>,
    timeout: Option<Micros>,
    fails: Option<u32>,
    passes: Option<u32>,
    port: Option<u16>,
    host: Option<&'a [u8]>,
    uri: Option<&'a [u8]>,
    method: Option<&'a [u8]>,
    statuses: Option<Vec<(u16, u16)>>,
    body: Option<&'a [u8]>,
    service: Option<&'a [u8]>,
    ssl: Option<()>,
    idle: Option<()>,
}

/// Reads the words behind `labor_check`. The error is a message in nginx's wording.
fn parse<'a>(words: impl Iterator<Item = &'a [u8]>, parse_time: ParseTime) -> Result<Check, String> {
    let mut given = Given::default();
    for word in words {
        match split(word) {
            (b"ssl", None) => once(&mut given.ssl, "ssl", ())?,
            (b"idle", None) => once(&mut given.idle, "idle", ())?,
            (name, Some(value)) if given.take(name, value, parse_time)? => {}
            _ => {
                return Err(format!(
                    "invalid parameter \"{}\", it must be \"type=\", \"interval=\", \"jitter=\", \"timeout=\", \"fails=\", \
                     \"passes=\", \"uri=\", \"method=\", \"host=\", \"port=\", \"status=\", \"body=\", \"service=\", \"ssl\" or \
                     \"idle\"",
                    Text(word)
                ));
            }
        }
    }
    given.fits_the_type()?;
    given.combine()
}

impl<'a> Given<'a> {
    /// Takes `name=value`; false when there is no such parameter.
    fn take(&mut self, name: &[u8], value: &'a [u8], parse_time: ParseTime) -> Result<bool, String> {
        let interval = |value| micros(value, parse_time).filter(|us| INTERVALS.contains(us));
        match name {
            b"type" => once(&mut self.kind, "type", kind(value)?)?,
            b"interval" => {
                let hint = || invalid(value, "interval", "it must be a time from \"100ms\" to \"1h\"");
                once(&mut self.interval, "interval", interval(value).ok_or_else(hint)?)?;
            }
            b"jitter" => {
                let hint = || invalid(value, "jitter", "it must be a time such as \"500ms\"");
                once(&mut self.jitter, "jitter", micros(value, parse_time).ok_or_else(hint)?)?;
            }
            b"timeout" => {
                let hint = || invalid(value, "timeout", "it must be a time of at least \"10ms\"");
                let time = micros(value, parse_time).filter(|us| *us >= TIMEOUT_LEAST);
                once(&mut self.timeout, "timeout", time.ok_or_else(hint)?)?;
            }
            b"fails" => once(&mut self.fails, "fails", in_a_row("fails", value)?)?,
            b"passes" => once(&mut self.passes, "passes", in_a_row("passes", value)?)?,
            b"port" => once(&mut self.port, "port", port(value)?)?,
            b"host" => once(&mut self.host, "host", word("host", value)?)?,
            b"uri" => once(&mut self.uri, "uri", uri(value)?)?,
            b"method" => once(&mut self.method, "method", method(value)?)?,
            b"status" => once(&mut self.statuses, "status", statuses(value)?)?,
            b"body" => once(&mut self.body, "body", body(value)?)?,
            b"service" => once(&mut self.service, "service", word("service", value)?)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Refuses what a check of this type would ignore.
    fn fits_the_type(&self) -> Result<(), String> {
        let kind = self.kind.unwrap_or(Kind::Http);
        let http = [
            ("uri=", self.uri.is_some()),
            ("method=", self.method.is_some()),
            ("status=", self.statuses.is_some()),
            ("body=", self.body.is_some()),
        ];
        let service = [("service=", self.service.is_some())];
        let (name, unused): (_, &[(&str, bool)]) = match kind {
            Kind::Http => ("http", &service),
            Kind::Tcp => ("tcp", &[http.as_slice(), &service].concat()),
            Kind::Grpc => ("grpc", &http),
        };
        if let Some((word, _)) = unused.iter().find(|(_, given)| *given) {
            return Err(format!("parameter \"{word}\" has no effect with \"type={name}\", remove one of them"));
        }
        if kind == Kind::Tcp && self.host.is_some() && self.ssl.is_none() {
            return Err(
                "parameter \"host=\" has no effect with \"type=tcp\" without \"ssl\", remove one of them".into()
            );
        }
        if self.method == Some(b"HEAD") && self.body.is_some() {
            return Err(
                "parameter \"body=\" has no effect with \"method=HEAD\", whose answers have none: remove one of them"
                    .into(),
            );
        }
        if self.ssl.is_some() && !tls::is_available(kind == Kind::Grpc) {
            return Err("parameter \"ssl\" requires an nginx with TLS (--with-http_ssl_module), remove it".into());
        }
        Ok(())
    }

    fn combine(self) -> Result<Check, String> {
        let default = CheckParams::default();
        let interval = self.interval.unwrap_or(default.interval);
        let timeout = self.timeout.unwrap_or(default.timeout.min(interval));
        if timeout > interval {
            return Err("parameter \"timeout\" is longer than \"interval\", it must be at most as long".into());
        }
        let jitter = self.jitter.unwrap_or(default.jitter);
        // Beyond that, taking over from a dead worker would take longer than two intervals.
        if jitter > interval / 2 {
            return Err("parameter \"jitter\" is longer than half of \"interval\", it must be at most as long".into());
        }
        let method = self.method.unwrap_or(b"GET");
        Ok(Check {
            params: CheckParams {
                interval,
                jitter,
                timeout,
                fails: self.fails.unwrap_or(default.fails),
                passes: self.passes.unwrap_or(default.passes),
                idle: self.idle.is_some(),
            },
            kind: self.kind.unwrap_or(Kind::Http),
            tls: self.ssl.is_some(),
            port: self.port,
            host: self.host.map(<[u8]>::to_vec),
            method: method.to_vec(),
            uri: self.uri.unwrap_or(b"/").to_vec(),
            expected: Expected {
                statuses: self.statuses.unwrap_or_else(|| vec![STATUSES]),
                body: self.body.map(<[u8]>::to_vec),
                head: method == b"HEAD",
            },
            service: self.service.unwrap_or_default().to_vec(),
        })
    }
}

fn kind(value: &[u8]) -> Result<Kind, String> {
    match value {
        b"http" => Ok(Kind::Http),
        b"tcp" => Ok(Kind::Tcp),
        b"grpc" => Ok(Kind::Grpc),
        _ => Err(invalid(value, "type", "it must be \"http\", \"tcp\" or \"grpc\"")),
    }
}

fn in_a_row(name: &str, value: &[u8]) -> Result<u32, String> {
    digits(value)
        .filter(|count| IN_A_ROW.contains(count))
        .ok_or_else(|| invalid(value, name, "it must be a number from 1 to 100"))
}

fn port(value: &[u8]) -> Result<u16, String> {
    digits(value)
        .and_then(|port| u16::try_from(port).ok())
        .filter(|port| *port > 0)
        .ok_or_else(|| invalid(value, "port", "it must be a number from 1 to 65535"))
}

/// What stands in a request as it is: no blanks, no control characters, nothing but ASCII.
fn word<'a>(name: &str, value: &'a [u8]) -> Result<&'a [u8], String> {
    let plain = value.iter().all(u8::is_ascii_graphic) && !value.is_empty() && value.len() <= TEXT_MOST;
    if plain { Ok(value) } else { Err(invalid(value, name, "it must be 1 to 255 visible ASCII characters")) }
}

fn uri(value: &[u8]) -> Result<&[u8], String> {
    word("uri", value).ok().filter(|uri| uri.first() == Some(&b'/') && !uri.contains(&b'#')).ok_or_else(|| {
        invalid(value, "uri", "it must begin with \"/\" and be at most 255 visible ASCII characters without \"#\"")
    })
}

fn method(value: &[u8]) -> Result<&[u8], String> {
    let plain = value.iter().all(u8::is_ascii_uppercase) && !value.is_empty() && value.len() <= METHOD_MOST;
    // Its answer is no answer but a tunnel.
    if plain && value != b"CONNECT" {
        Ok(value)
    } else {
        Err(invalid(value, "method", "it must be a method such as \"GET\" or \"HEAD\""))
    }
}

fn statuses(value: &[u8]) -> Result<Vec<(u16, u16)>, String> {
    let hint = || {
        invalid(value, "status", "it must be a list of statuses and ranges from 100 to 599, such as \"200-299,401\"")
    };
    let status = |text: &[u8]| {
        let number = (text.len() == 3).then(|| digits(text)).flatten()?;
        u16::try_from(number).ok().filter(|status| (100..=599).contains(status))
    };
    let range = |text: &[u8]| {
        let (first, last) = split_at(text, b'-');
        let first = status(first)?;
        let last = last.map_or(Some(first), status)?;
        (first <= last).then_some((first, last))
    };
    value.split(|byte| *byte == b',').map(|text| range(text).ok_or_else(hint)).collect()
}

fn split_at(text: &[u8], byte: u8) -> (&[u8], Option<&[u8]>) {
    let mut parts = text.splitn(2, |other| *other == byte);
    (parts.next().unwrap_or_default(), parts.next())
}

/// nginx takes quotes for such only around a whole word: here they are taken off around the text, too.
fn body(value: &[u8]) -> Result<&[u8], String> {
    let value = match value.strip_prefix(b"\"") {
        None => value,
        Some(rest) => rest.strip_suffix(b"\"").ok_or_else(|| {
            invalid(
                value,
                "body",
                "a text with blanks is written as \"body=some text\", with the quotes around the whole parameter",
            )
        })?,
    };
    if value.is_empty() || value.len() > TEXT_MOST {
        return Err(invalid(value, "body", "it must be 1 to 255 bytes of text"));
    }
    Ok(value)
}
