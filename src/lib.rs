//! `labor`: an nginx module that sends each request to the server that will answer it soonest.
//!
//! This file holds the module table that nginx reads after `load_module`, and nothing else: directives are `conf.rs`, the
//! request path is `upstream.rs`, and the balancing itself is the crate `labor_core`, which knows nothing of nginx.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::undocumented_unsafe_blocks,
    unsafe_op_in_unsafe_fn
)]

mod api;
mod conf;
mod ffi;
mod filter;
mod health;
mod outcome;
mod servers;
mod settings;
mod state;
mod status;
mod trace;
mod upstream;
mod vars;
mod worker;
mod zone;

use core::ffi::{c_char, c_void};
use core::ptr;

use nginx_sys::{NGX_HTTP_MODULE, ngx_cycle_t, ngx_http_module_t, ngx_int_t, ngx_module_t, ngx_uint_t};

static HTTP_MODULE: ngx_http_module_t = ngx_http_module_t {
    preconfiguration: Some(conf::preconfiguration),
    postconfiguration: Some(conf::postconfiguration),
    create_main_conf: Some(conf::create_main_conf),
    init_main_conf: Some(conf::init_main_conf),
    create_srv_conf: Some(conf::create_srv_conf),
    merge_srv_conf: None,
    create_loc_conf: Some(conf::create_loc_conf),
    merge_loc_conf: Some(conf::merge_loc_conf),
};

/// The module; nginx writes its indices into it.
#[used]
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static mut ngx_http_labor_module: ngx_module_t = ngx_module_t {
    ctx: (&raw const HTTP_MODULE).cast_mut().cast::<c_void>(),
    commands: conf::commands(),
    type_: NGX_HTTP_MODULE as ngx_uint_t,
    init_module: Some(init_module),
    init_process: Some(init_process),
    exit_process: Some(exit_process),
    ..ngx_module_t::default()
};

/// What `load_module` looks up: the modules of this file, ended by null.
#[used]
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static mut ngx_modules: [*const ngx_module_t; 2] = [&raw const ngx_http_labor_module, ptr::null()];

/// What `load_module` looks up: their names.
#[used]
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static mut ngx_module_names: [*const c_char; 2] = [c"ngx_http_labor_module".as_ptr(), ptr::null()];

/// What `load_module` looks up: no order is asked for, so the module comes last and its filters see the answer first.
#[used]
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static mut ngx_module_order: [*const c_char; 1] = [ptr::null()];

/// A configuration is read, by the master or by `nginx -t`.
extern "C" fn init_module(cycle: *mut ngx_cycle_t) -> ngx_int_t {
    state::check(cycle);
    nginx_sys::NGX_OK as ngx_int_t
}

/// The worker first (its slot, its clock), then the lists of servers, which need both, then what looks after them.
extern "C" fn init_process(cycle: *mut ngx_cycle_t) -> ngx_int_t {
    worker::each_part(each_part);
    let status = worker::init_process(cycle);
    if status == nginx_sys::NGX_OK as ngx_int_t {
        state::init_process(cycle);
        upstream::init_process(cycle);
        api::init_process(cycle);
        health::init_process(cycle);
    }
    status
}

/// What a worker does once a second beside looking after the shared memory, and in the parts of that second; `first`: the first.
fn each_part(now: labor_core::time::Micros, first: bool) {
    if first {
        status::keeper::run(now);
        api::each_second(now);
    } else {
        status::followed::renew(now);
    }
}

extern "C" fn exit_process(cycle: *mut ngx_cycle_t) {
    // Before the worker gives its slot back.
    health::exit_process();
    worker::exit_process(cycle);
}
