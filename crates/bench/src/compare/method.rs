//! The balancing methods that `labor-bench compare` knows: which program runs each, and with which configuration.
//!
//! All get the same: connections to the servers are kept, the same workers, one failure counted as by default.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args as ClapArgs;

/// Idle connections to the servers that a worker keeps: more than any scenario has in flight.
const KEEPALIVE: u32 = 128;

/// The programs that balance.
#[derive(ClapArgs)]
pub struct Programs {
    /// The nginx that loads the module; runs round_robin, least_conn and random_two too
    #[arg(long, value_name = "PATH")]
    pub nginx: PathBuf,
    /// The module
    #[arg(long, value_name = "PATH")]
    pub module: PathBuf,
    /// An nginx that has least_time; runs its own least_conn too, to show what the builds differ by
    #[arg(long, value_name = "PATH")]
    pub least_time: Option<PathBuf>,
    /// HAProxy
    #[arg(long, value_name = "PATH")]
    pub haproxy: Option<PathBuf>,
}

/// A way to choose a server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Method {
    /// As in the report and on the command line.
    pub name: &'static str,
    program: Program,
    /// The directive in the upstream block (nginx) or behind `balance` (HAProxy).
    directive: &'static str,
    /// Only the first server is configured: what it can do by itself.
    pub first_only: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Program {
    Module,
    Nginx,
    LeastTime,
    Haproxy,
}

const fn method(name: &'static str, program: Program, directive: &'static str) -> Method {
    Method { name, program, directive, first_only: false }
}

/// All of them, in the order of the report.
pub const METHODS: &[Method] = &[
    method("labor", Program::Module, "labor;"),
    method("labor_header", Program::Module, "labor header;"),
    method("labor_decay", Program::Module, "labor policy=decay;"),
    method("labor_least_conn", Program::Module, "labor policy=least_conn;"),
    method("round_robin", Program::Nginx, ""),
    method("least_conn", Program::Nginx, "least_conn;"),
    method("random_two", Program::Nginx, "random two least_conn;"),
    method("least_time_header", Program::LeastTime, "least_time header;"),
    method("least_time_last_byte", Program::LeastTime, "least_time last_byte;"),
    method("least_conn_1.31", Program::LeastTime, "least_conn;"),
    method("haproxy_leastconn", Program::Haproxy, "leastconn"),
    Method { first_only: true, ..method("first_alone", Program::Nginx, "") },
];

/// The methods of a run when none are named.
const USUAL: &[&str] = &[
    "labor",
    "round_robin",
    "least_conn",
    "random_two",
    "least_time_header",
    "least_time_last_byte",
    "least_conn_1.31",
    "haproxy_leastconn",
    "first_alone",
];

/// The methods named, or the usual ones for which there is a program.
///
/// # Errors
/// When a name is unknown or its program is missing.
pub fn choose(names: &[String], programs: &Programs) -> Result<Vec<Method>> {
    if names.is_empty() {
        let usual = METHODS.iter().filter(|m| USUAL.contains(&m.name) && programs.of(m.program).is_some());
        return Ok(usual.copied().collect());
    }
    names
        .iter()
        .map(|name| {
            let Some(method) = METHODS.iter().find(|method| method.name == name) else {
                let known: Vec<_> = METHODS.iter().map(|method| method.name).collect();
                bail!("unknown method \"{name}\"; known: {}", known.join(", "));
            };
            if programs.of(method.program).is_none() {
                bail!("no program for \"{name}\" is given");
            }
            Ok(*method)
        })
        .collect()
}

impl Programs {
    fn of(&self, program: Program) -> Option<&Path> {
        match program {
            Program::Module | Program::Nginx => Some(&self.nginx),
            Program::LeastTime => self.least_time.as_deref(),
            Program::Haproxy => self.haproxy.as_deref(),
        }
    }

    /// The command that runs a method in the foreground with its configuration in `dir`.
    pub fn command(&self, method: Method, dir: &Path) -> Option<(PathBuf, Vec<String>)> {
        let program = self.of(method.program)?.to_owned();
        let conf = dir.join("conf").display().to_string();
        let arguments = match method.program {
            Program::Haproxy => vec!["-db".to_owned(), "-f".to_owned(), conf],
            _ => ["-e", "stderr", "-p", &dir.display().to_string(), "-c", &conf].map(str::to_owned).to_vec(),
        };
        Some((program, arguments))
    }

    /// The configuration of a method: listens on the unix socket `dir/listen` before the servers (name, address).
    pub fn configuration(&self, method: Method, workers: usize, servers: &[(String, String)], dir: &Path) -> String {
        let servers = if method.first_only { servers.get(..1).unwrap_or(servers) } else { servers };
        match method.program {
            Program::Haproxy => haproxy(method, workers, servers, dir),
            _ => self.nginx_configuration(method, workers, servers, dir),
        }
    }

    fn nginx_configuration(&self, method: Method, workers: usize, servers: &[(String, String)], dir: &Path) -> String {
        let dir = dir.display();
        let mut conf = String::new();
        if method.program == Program::Module {
            add(&mut conf, format_args!("load_module \"{}\";", self.module.display()));
        }
        if rustix::process::geteuid().is_root() {
            add(&mut conf, format_args!("user root;"));
        }
        add(
            &mut conf,
            format_args!("daemon off;\nworker_processes {workers};\npid {dir}/pid;\nerror_log stderr warn;"),
        );
        add(&mut conf, format_args!("events {{ worker_connections 8192; }}\nhttp {{\n    access_log off;"));
        for path in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
            add(&mut conf, format_args!("    {path}_temp_path {dir}/{path};"));
        }
        // A connection of the load generator must not end in mid-run.
        add(&mut conf, format_args!("    keepalive_requests 1000000;\n    upstream u {{\n        zone u 1m;"));
        add(&mut conf, format_args!("        {}", method.directive));
        for (name, address) in servers {
            add(&mut conf, format_args!("        server {address}; # {name}"));
        }
        add(&mut conf, format_args!("        keepalive {KEEPALIVE};\n        keepalive_requests 1000000;\n    }}"));
        add(&mut conf, format_args!("    server {{\n        listen unix:{dir}/listen;"));
        add(&mut conf, format_args!("        location / {{\n            proxy_pass http://u;"));
        add(
            &mut conf,
            format_args!("            proxy_http_version 1.1;\n            proxy_set_header Connection \"\";"),
        );
        add(&mut conf, format_args!("        }}\n    }}\n}}"));
        conf
    }
}

fn haproxy(method: Method, workers: usize, servers: &[(String, String)], dir: &Path) -> String {
    let mut conf = format!("global\n    maxconn 8192\n    nbthread {workers}\ndefaults\n    mode http\n");
    add(&mut conf, format_args!("    timeout connect 60s\n    timeout client 60s\n    timeout server 60s"));
    add(&mut conf, format_args!("    http-reuse always\nfrontend f\n    bind unix@{}/listen", dir.display()));
    add(&mut conf, format_args!("    default_backend b\nbackend b\n    balance {}", method.directive));
    for (name, address) in servers {
        add(&mut conf, format_args!("    server {name} {address}"));
    }
    conf
}

fn add(text: &mut String, line: std::fmt::Arguments) {
    writeln!(text, "{line}").expect("a String takes every write");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs() -> Programs {
        Programs { nginx: "n".into(), module: "m.so".into(), least_time: None, haproxy: None }
    }

    #[test]
    fn a_method_without_program_is_left_out_and_refused_when_named() {
        let names = |methods: Vec<Method>| methods.iter().map(|m| m.name).collect::<Vec<_>>();
        let usual = names(choose(&[], &programs()).unwrap());
        assert_eq!(usual, ["labor", "round_robin", "least_conn", "random_two", "first_alone"]);
        assert!(choose(&["haproxy_leastconn".to_owned()], &programs()).is_err());
        assert!(choose(&["fastest".to_owned()], &programs()).is_err());
        assert_eq!(names(choose(&["least_conn".to_owned()], &programs()).unwrap()), ["least_conn"]);
    }

    #[test]
    fn only_the_module_s_methods_load_it_and_one_server_is_alone() {
        let servers = [("a".to_owned(), "127.0.0.1:1".to_owned()), ("b".to_owned(), "127.0.0.1:2".to_owned())];
        for method in METHODS {
            let conf = programs().configuration(*method, 2, &servers, Path::new("d"));
            assert_eq!(conf.contains("load_module"), method.program == Program::Module, "{}", method.name);
            assert_eq!(conf.contains("127.0.0.1:2"), !method.first_only, "{}", method.name);
            assert!(conf.contains(method.directive) && conf.contains("d/listen"), "{conf}");
        }
    }
}
