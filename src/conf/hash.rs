//! `labor_hash`: by which key requests stay on their servers, and how far.
//!
//! Text becomes an [`Affinity`], a compiled key and perhaps a secret. That the block has `labor` as well is looked at once all of it
//! is read. What the values mean is the core's business.

use core::ffi::{c_char, c_void};
use core::mem;

use labor_core::affinity::{Affinity, Secret};
use nginx_sys::{
    NGX_LOG_EMERG, NGX_OK, ngx_command_t, ngx_conf_t, ngx_http_compile_complex_value, ngx_http_compile_complex_value_t,
    ngx_http_complex_value_t, ngx_int_t,
};
use ngx::core::Pool;
use ngx::ngx_log_error;

use super::parameters::{Text, digits, invalid, number, once, split};
use super::{CONF_ERROR, CONF_OK, location};
use crate::ffi;
use crate::settings::{Block, Hash, UpstreamConf};

/// Largest bound: with a hundred times its part a server has everything in all but the largest lists.
const BOUND_MAX: f32 = 100.0;
/// Most virtual nodes for each unit of weight: parts are within one per cent then.
const VNODES_MAX: u32 = 1024;
/// Largest slack: who bears more than that bears anything, which is `off`.
const SLACK_MAX: f32 = 1000.0;
/// Shortest secret: sixteen characters, a key of the hash in hexadecimal has 32.
const SECRET_MIN: usize = 16;

/// What was given so far.
#[derive(Default)]
struct Given {
    bound: Option<f32>,
    vnodes: Option<u32>,
    slack: Option<f32>,
    secret: Option<Secret>,
}

/// `labor_hash key [bound=number] [vnodes=number] [slack=number|off] [secret=text];` in `upstream {}`.
pub unsafe extern "C" fn labor_hash(cf: *mut ngx_conf_t, _: *mut ngx_command_t, conf: *mut c_void) -> *mut c_char {
    // SAFETY: nginx hands over what `create_srv_conf` made for this block, inside `http {}`.
    let (Some(block), Some(main)) = (unsafe { (conf.cast::<UpstreamConf>().as_mut(), ffi::main_conf(cf)) }) else {
        return CONF_ERROR;
    };
    if block.hash.is_some() {
        return c"is duplicate".as_ptr().cast_mut();
    }
    // SAFETY: a directive is being handled.
    let mut words = unsafe { ffi::args(cf) }.skip(1);
    let Some(text) = words.next() else { return CONF_ERROR };
    match parse(text, words) {
        Ok((affinity, secret)) => {
            let Some(key) = compile(cf, text) else { return CONF_ERROR };
            block.hash = Some(Hash { key, affinity, secret });
        }
        Err(message) => {
            ffi::conf_error(cf, format_args!("{message}"));
            return CONF_ERROR;
        }
    }
    main.hashes.push(Block { conf: block, place: location::place(cf) });
    CONF_OK
}

/// Whether every block with `labor_hash` has `labor`; the first that has not is logged.
pub fn check(cf: *mut ngx_conf_t, blocks: &[Block]) -> bool {
    let lonely = Block::without_labor(blocks);
    if let Some(block) = lonely {
        // SAFETY: a configuration is being read.
        let log = unsafe { (*cf).log };
        ngx_log_error!(
            NGX_LOG_EMERG,
            log,
            "\"labor_hash\" requires \"labor\" in the same upstream, add it or remove \"labor_hash\" in {}",
            block.place
        );
    }
    lonely.is_none()
}

/// Has nginx read the variables in `text`; what is wrong with them it says itself.
fn compile(cf: *mut ngx_conf_t, text: &[u8]) -> Option<*mut ngx_http_complex_value_t> {
    // SAFETY: zeros are a valid value of either; the pool is that of the configuration, which the value lives as long as.
    unsafe {
        let value: *mut ngx_http_complex_value_t =
            Pool::from_ngx_pool((*cf).pool).allocate(mem::zeroed::<ngx_http_complex_value_t>());
        let mut text = ffi::ngx_str(text);
        let mut compile: ngx_http_compile_complex_value_t = mem::zeroed();
        (compile.cf, compile.value, compile.complex_value) = (cf, &raw mut text, value);
        let done = !value.is_null() && ngx_http_compile_complex_value(&raw mut compile) == NGX_OK as ngx_int_t;
        done.then_some(value)
    }
}

/// Reads the words behind the key. The error is a message in nginx's wording with the value and what would be right.
fn parse<'a>(key: &[u8], words: impl Iterator<Item = &'a [u8]>) -> Result<(Affinity, Option<Secret>), String> {
    if key.is_empty() || matches!(split(key), (b"bound" | b"vnodes" | b"slack" | b"secret", Some(_))) {
        return Err(format!(
            "invalid key \"{}\", it must be a text with variables, such as \"$cookie_session\"",
            Text(key)
        ));
    }
    let mut given = Given::default();
    for word in words {
        match split(word) {
            (b"bound", Some(value)) => once(&mut given.bound, "bound", bound(value)?)?,
            (b"vnodes", Some(value)) => once(&mut given.vnodes, "vnodes", vnodes(value)?)?,
            (b"slack", Some(value)) => once(&mut given.slack, "slack", slack(value)?)?,
            (b"secret", Some(value)) => once(&mut given.secret, "secret", secret(value)?)?,
            _ => {
                return Err(format!(
                    "invalid parameter \"{}\", it must be \"bound=\", \"vnodes=\", \"slack=\" or \"secret=\"",
                    Text(word)
                ));
            }
        }
    }
    let default = Affinity::default();
    let affinity = Affinity {
        bound: given.bound.unwrap_or(default.bound),
        vnodes: given.vnodes.unwrap_or(default.vnodes),
        slack: given.slack.unwrap_or(default.slack),
    };
    Ok((affinity, given.secret))
}

fn bound(value: &[u8]) -> Result<f32, String> {
    number(value)
        .filter(|bound| (1.0..=BOUND_MAX).contains(bound))
        .ok_or_else(|| invalid(value, "bound", "it must be a number from \"1\" to \"100\""))
}

fn vnodes(value: &[u8]) -> Result<u32, String> {
    digits(value)
        .filter(|vnodes| (1..=VNODES_MAX).contains(vnodes))
        .ok_or_else(|| invalid(value, "vnodes", "it must be a number from \"1\" to \"1024\""))
}

fn slack(value: &[u8]) -> Result<f32, String> {
    if value == b"off" {
        return Ok(f32::INFINITY);
    }
    number(value)
        .filter(|slack| *slack > 1.0 && *slack <= SLACK_MAX)
        .ok_or_else(|| invalid(value, "slack", "it must be \"off\" or a number above \"1\" up to \"1000\""))
}

fn secret(value: &[u8]) -> Result<Secret, String> {
    // The message does not repeat it: logs are read by many.
    (value.len() >= SECRET_MIN)
        .then(|| Secret::of(value))
        .ok_or_else(|| format!("invalid value in parameter \"secret\", it must have at least {SECRET_MIN} characters"))
}
