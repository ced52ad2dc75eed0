//! What each balancer is told: the same for all, as far as it has it.
//!
//! Connections to the servers are kept, the same number of workers, failures counted as by default.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::method::{Method, Program, Programs};

/// Idle connections to the servers that a worker keeps: more than any scenario has in flight.
const KEEPALIVE: u32 = 256;
/// What the Lua methods have in common, then one each.
const LUA: &[(&str, &str)] =
    &[("fastest.lua", include_str!("../../lua/fastest.lua")), ("ewma.lua", include_str!("../../lua/ewma.lua"))];

/// A server as balancers know it.
#[derive(Clone)]
pub struct Upstream {
    /// Its name.
    pub name: String,
    /// IPv4 address and port.
    pub address: String,
    /// Its weight.
    pub weight: u32,
}

/// The files of a method that listens on the unix socket `dir/listen` before the servers: names below `dir`, and contents.
pub fn files(
    programs: &Programs,
    method: Method,
    workers: usize,
    servers: &[Upstream],
    dir: &Path,
) -> Vec<(&'static str, String)> {
    let servers = if method.first_only { servers.get(..1).unwrap_or(servers) } else { servers };
    let conf = match method.program {
        Program::Haproxy => haproxy(method, workers, servers, dir),
        Program::Caddy => caddy(method, servers, dir),
        _ => nginx(programs, method, workers, servers, dir),
    };
    let mut files = vec![("conf", conf)];
    if method.program == Program::Lua {
        files.extend(LUA.iter().map(|(name, text)| (*name, (*text).to_owned())));
    }
    files
}

fn nginx(programs: &Programs, method: Method, workers: usize, servers: &[Upstream], dir: &Path) -> String {
    let mut conf = String::new();
    for line in load(programs, method.program) {
        add(&mut conf, format_args!("{line}"));
    }
    if rustix::process::geteuid().is_root() {
        add(&mut conf, format_args!("user root;"));
    }
    let here = dir.display();
    add(&mut conf, format_args!("daemon off;\nworker_processes {workers};\npid {here}/pid;\nerror_log stderr warn;"));
    add(&mut conf, format_args!("events {{ worker_connections 8192; }}\nhttp {{\n    access_log off;"));
    for path in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        add(&mut conf, format_args!("    {path}_temp_path {here}/{path};"));
    }
    // A connection of the load generator must not end in mid-run.
    add(&mut conf, format_args!("    keepalive_requests 1000000;"));
    if method.program == Program::Lua {
        lua(&mut conf, programs, method, servers, dir);
    }
    add(&mut conf, format_args!("    upstream u {{"));
    match method.program {
        Program::Lua => {
            add(&mut conf, format_args!("        server 0.0.0.1; # nobody: the script names the server"));
            add(
                &mut conf,
                format_args!("        balancer_by_lua_block {{ require(\"{}\").pick() }}", method.directive),
            );
        }
        // With a zone upstream-fair does not start.
        Program::Fair => add(&mut conf, format_args!("        {}", method.directive)),
        _ => add(&mut conf, format_args!("        zone u 1m;\n        {}", method.directive)),
    }
    for server in servers.iter().filter(|_| method.program != Program::Lua) {
        add(&mut conf, format_args!("        server {} weight={}; # {}", server.address, server.weight, server.name));
    }
    add(&mut conf, format_args!("        keepalive {KEEPALIVE};\n        keepalive_requests 1000000;\n    }}"));
    add(&mut conf, format_args!("    server {{\n        listen unix:{here}/listen;\n        location / {{"));
    add(&mut conf, format_args!("            proxy_pass http://u;\n            proxy_http_version 1.1;"));
    add(&mut conf, format_args!("            proxy_set_header Connection \"\";"));
    if method.program == Program::Lua {
        add(&mut conf, format_args!("            log_by_lua_block {{ require(\"{}\").log() }}", method.directive));
    }
    add(&mut conf, format_args!("        }}\n    }}\n}}"));
    conf
}

/// Lines that load what a method needs. Debian's own name modules by paths below the directory that nginx runs in, where
/// [`modules`] is.
fn load(programs: &Programs, program: Program) -> Vec<String> {
    let names: &[&str] = match program {
        Program::Module => return vec![format!("load_module \"{}\";", programs.module.display())],
        Program::Fair => &["upstream-fair"],
        Program::Lua => &["ndk", "lua"],
        _ => return Vec::new(),
    };
    let root = programs.debian.as_deref().unwrap_or(Path::new("."));
    let file = |name| root.join(format!("usr/share/nginx/modules-available/mod-http-{name}.conf"));
    names.iter().map(|name| format!("include \"{}\";", file(name).display())).collect()
}

/// Where the modules are that a method loads by a path below its directory, as `modules`.
pub fn modules(programs: &Programs, method: Method) -> Option<PathBuf> {
    let root = programs.debian.as_ref().filter(|_| matches!(method.program, Program::Fair | Program::Lua));
    root.map(|root| root.join("usr/lib/nginx/modules"))
}

fn lua(conf: &mut String, programs: &Programs, method: Method, servers: &[Upstream], dir: &Path) {
    let root = programs.debian.as_deref().unwrap_or(Path::new("."));
    let (here, root) = (dir.display(), root.display());
    add(conf, format_args!("    lua_package_path \"{here}/?.lua;{root}/usr/share/lua/5.1/?.lua;;\";"));
    add(conf, format_args!("    lua_shared_dict balancer 1m;\n    init_by_lua_block {{"));
    add(conf, format_args!("        require(\"{}\").init({{", method.directive));
    for server in servers {
        let (host, port) = server.address.rsplit_once(':').unwrap_or((&server.address, "0"));
        let (name, weight) = (&server.name, server.weight);
        add(conf, format_args!("            {{ \"{host}\", {port}, weight = {weight} }}, -- {name}"));
    }
    add(conf, format_args!("        }})\n    }}"));
    // Workers are copies of the master: without this all draw the same numbers.
    add(conf, format_args!("    init_worker_by_lua_block {{ math.randomseed(ngx.worker.pid()) }}"));
}

fn haproxy(method: Method, workers: usize, servers: &[Upstream], dir: &Path) -> String {
    let mut conf = format!("global\n    maxconn 8192\n    nbthread {workers}\ndefaults\n    mode http\n");
    add(&mut conf, format_args!("    timeout connect 60s\n    timeout client 60s\n    timeout server 60s"));
    add(&mut conf, format_args!("    http-reuse always\nfrontend f\n    bind unix@{}/listen", dir.display()));
    add(&mut conf, format_args!("    default_backend b\nbackend b\n    balance {}", method.directive));
    for Upstream { name, address, weight } in servers {
        add(&mut conf, format_args!("    server {name} {address} weight {weight}"));
    }
    conf
}

fn caddy(method: Method, servers: &[Upstream], dir: &Path) -> String {
    let mut conf = "{\n\tadmin off\n\tauto_https off\n\tgrace_period 1s\n\tlog {\n\t\tlevel ERROR\n\t}\n}\n".to_owned();
    let addresses: Vec<_> = servers.iter().map(|server| server.address.as_str()).collect();
    add(&mut conf, format_args!("http:// {{\n\tbind unix/{}/listen", dir.display()));
    add(&mut conf, format_args!("\treverse_proxy {} {{\n\t\tlb_policy {}", addresses.join(" "), method.directive));
    add(&mut conf, format_args!("\t\ttransport http {{\n\t\t\tdial_timeout 60s\n\t\t\tcompression off"));
    add(&mut conf, format_args!("\t\t\tkeepalive_idle_conns_per_host {KEEPALIVE}\n\t\t}}\n\t}}\n}}"));
    conf
}

fn add(text: &mut String, line: std::fmt::Arguments) {
    writeln!(text, "{line}").expect("a String takes every write");
}

#[cfg(test)]
mod tests {
    use super::super::method::METHODS;
    use super::*;

    #[test]
    fn each_method_gets_the_servers_and_only_the_module_s_load_it() {
        let programs = Programs {
            nginx: "n".into(),
            module: "m.so".into(),
            least_time: None,
            debian: Some("d".into()),
            haproxy: None,
            caddy: None,
        };
        let server =
            |name: &str, port: u32| Upstream { name: name.to_owned(), address: format!("127.0.0.1:{port}"), weight: 3 };
        let servers = [server("a", 41), server("b", 42)];
        for method in METHODS {
            let files = files(&programs, *method, 2, &servers, Path::new("/x"));
            let conf = &files[0].1;
            assert_eq!(conf.contains("m.so"), method.program == Program::Module, "{}", method.name);
            assert_eq!(conf.contains("42"), !method.first_only, "{}", method.name);
            assert!(conf.contains(method.directive) && conf.contains("/x/listen"), "{conf}");
            assert_eq!(files.len(), if method.program == Program::Lua { 3 } else { 1 });
        }
    }
}
