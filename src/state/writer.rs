//! Whether workers will be able to replace the state file, asked by the process that reads the configuration.
//!
//! Workers write, and a master that root started lets them run as somebody else; without this look, nobody hears of a
//! directory that is not theirs before the first change is lost. Goes by owner, groups and mode: what access control lists
//! grant beyond is not seen, so this warns and does not refuse.

use core::ffi::CStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nginx_sys::{ngx_core_conf_t, ngx_core_module, ngx_cycle_t};

use super::file;

/// More groups than anybody who runs a web server has.
const GROUPS: usize = 64;

/// Why workers of `cycle` cannot write beside `path`, in words with a remedy; `None` if they can, or if that cannot be told.
///
/// # Safety
/// The cycle's configuration is read.
pub unsafe fn obstacle(cycle: *mut ngx_cycle_t, path: &Path) -> Option<String> {
    // SAFETY: by contract: the core module's settings are there; the name is a string of C, if there is one.
    let (core, name) = unsafe {
        let core = (*(*cycle).conf_ctx.add(ngx_core_module.index)).cast::<ngx_core_conf_t>().as_ref()?;
        (core, if core.username.is_null() { None } else { Some(CStr::from_ptr(core.username)) })
    };
    // SAFETY: always succeeds and changes nothing.
    let root = unsafe { libc::geteuid() } == 0;
    let Some(name) = name.filter(|_| root) else {
        // Workers run as whoever this is.
        return file::cannot_write(path).map(|failure| failure.to_string());
    };
    let parent = file::parent(path);
    let directory = fs::metadata(parent).ok()?;
    let bits = if directory.uid() == core.user {
        directory.mode() >> 6
    } else if is_member(name, core.group, directory.gid()) {
        directory.mode() >> 3
    } else {
        directory.mode()
    };
    if core.user == 0 || bits & 0o7 == 0o7 {
        return None;
    }
    let (name, parent) = (name.to_string_lossy(), parent.display());
    Some(format!("workers run as \"{name}\", who may not write into \"{parent}\": \"chown {name} {parent}\""))
}

/// Whether `name`, whose first group is `first`, is in `group`.
fn is_member(name: &CStr, first: libc::gid_t, group: libc::gid_t) -> bool {
    let mut groups = [first; GROUPS];
    let mut count = GROUPS as libc::c_int;
    // SAFETY: there is room for `count` groups; where they do not fit, as many as do are there.
    unsafe { libc::getgrouplist(name.as_ptr(), first, groups.as_mut_ptr(), &raw mut count) };
    groups.contains(&group)
}
