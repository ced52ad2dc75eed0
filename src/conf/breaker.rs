//! `labor_breaker`: when servers are taken out for failing, and for how long.
//!
//! Its words and the messages about them; what they do is the core's business.

use core::ffi::{c_char, c_void};

use labor_core::params::BreakerParams;
use labor_core::time::{Micros, SECOND};
use nginx_sys::{NGX_LOG_EMERG, ngx_command_t, ngx_conf_t};
use ngx::ngx_log_error;

use super::parameters::{ParseTime, Text, digits, invalid, micros, once, split};
use super::{CONF_ERROR, CONF_OK, location};
use crate::ffi;
use crate::settings::{Block, UpstreamConf};

/// More failures in a row than a thousand are no breaker, and the counter ends there.
const FAILS: core::ops::RangeInclusive<u32> = 1..=1000;
/// Times: below a second nothing is counted or rested, and beyond an hour nobody waits for a trial.
const TIMES: core::ops::RangeInclusive<Micros> = SECOND..=3600 * SECOND;

/// `labor_breaker [fails=5] [window=10s] [open=5s] [max_open=60s] [max_ejected=50%] | off;` in `upstream {}`.
pub unsafe extern "C" fn labor_breaker(cf: *mut ngx_conf_t, _: *mut ngx_command_t, conf: *mut c_void) -> *mut c_char {
    // SAFETY: nginx hands over what `create_srv_conf` made for this block, inside `http {}`.
    let (Some(conf), Some(main)) = (unsafe { (conf.cast::<UpstreamConf>().as_mut(), ffi::main_conf(cf)) }) else {
        return CONF_ERROR;
    };
    if conf.breaker.is_some() {
        return c"is duplicate".as_ptr().cast_mut();
    }
    // SAFETY: a directive is being handled.
    match parse(unsafe { ffi::args(cf) }.skip(1), super::parse_time) {
        Ok(breaker) => {
            conf.breaker = Some(breaker);
            // Before or after `labor`, whose own words do not touch this one.
            conf.params.breaker = breaker;
        }
        Err(message) => {
            ffi::conf_error(cf, format_args!("{message}"));
            return CONF_ERROR;
        }
    }
    main.breakers.push(Block { conf, place: location::place(cf) });
    CONF_OK
}

/// Whether a block has the directive and no `labor`; if so, that is logged. Call when everything is read.
pub fn is_alone(cf: *mut ngx_conf_t, blocks: &[Block]) -> bool {
    let alone = Block::without_labor(blocks);
    if let Some(block) = alone {
        // SAFETY: a configuration is being read.
        let log = unsafe { (*cf).log };
        ngx_log_error!(
            NGX_LOG_EMERG,
            log,
            "\"labor_breaker\" has no effect without \"labor\" in the same upstream, add it or remove this, in {}",
            block.place
        );
    }
    alone.is_some()
}

/// What was given so far.
#[derive(Default)]
struct Given {
    off: Option<()>,
    fails: Option<u32>,
    window: Option<Micros>,
    open: Option<Micros>,
    max_open: Option<Micros>,
    max_ejected: Option<f32>,
}

/// Reads the words behind `labor_breaker`; `None` for off. The error is a message in nginx's wording.
fn parse<'a>(words: impl Iterator<Item = &'a [u8]>, parse_time: ParseTime) -> Result<Option<BreakerParams>, String> {
    let (mut given, mut count) = (Given::default(), 0_usize);
    for word in words {
        count = count.saturating_add(1);
        match split(word) {
            (b"off", None) => once(&mut given.off, "off", ())?,
            (b"fails", Some(value)) => once(&mut given.fails, "fails", fails(value)?)?,
            (b"window", Some(value)) => once(&mut given.window, "window", time("window", value, parse_time)?)?,
            (b"open", Some(value)) => once(&mut given.open, "open", time("open", value, parse_time)?)?,
            (b"max_open", Some(value)) => once(&mut given.max_open, "max_open", time("max_open", value, parse_time)?)?,
            (b"max_ejected", Some(value)) => once(&mut given.max_ejected, "max_ejected", share(value)?)?,
            _ => {
                return Err(format!(
                    "invalid parameter \"{}\", it must be \"fails=\", \"window=\", \"open=\", \"max_open=\", \
                     \"max_ejected=\" or \"off\"",
                    Text(word)
                ));
            }
        }
    }
    match given.off {
        Some(()) if count > 1 => Err("\"off\" must be the only parameter, remove it or the others".to_owned()),
        Some(()) => Ok(None),
        None => combine(&given).map(Some),
    }
}

fn combine(given: &Given) -> Result<BreakerParams, String> {
    let default = BreakerParams::default();
    let open = given.open.unwrap_or(default.open);
    // Who only asks for a longer first time gets it.
    let max_open = given.max_open.unwrap_or(default.max_open.max(open));
    if open > max_open {
        return Err("parameter \"open\" is longer than \"max_open\", it must be at most as long".to_owned());
    }
    Ok(BreakerParams {
        fails: given.fails.unwrap_or(default.fails),
        window: given.window.unwrap_or(default.window),
        open,
        max_open,
        max_ejected: given.max_ejected.unwrap_or(default.max_ejected),
    })
}

fn fails(value: &[u8]) -> Result<u32, String> {
    digits(value)
        .filter(|count| FAILS.contains(count))
        .ok_or_else(|| invalid(value, "fails", "it must be a number from 1 to 1000"))
}

fn time(name: &str, value: &[u8], parse_time: ParseTime) -> Result<Micros, String> {
    micros(value, parse_time)
        .filter(|us| TIMES.contains(us))
        .ok_or_else(|| invalid(value, name, "it must be a time from \"1s\" to \"1h\""))
}

fn share(value: &[u8]) -> Result<f32, String> {
    let percent = value.strip_suffix(b"%").and_then(digits).filter(|percent| (1..=100).contains(percent));
    percent
        .map(|percent| percent as f32 / 100.0)
        .ok_or_else(|| invalid(value, "max_ejected", "it must be from \"1%\" to \"100%\""))
}
