//! The balancing methods that `labor-bench compare` knows: which program runs each, and what the simulator calls it.
//!
//! What the programs are told is conf.rs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args as ClapArgs;

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
    /// A directory with Debian's nginx and its modules unpacked: the program `run`, usr/lib/nginx/modules, usr/share/lua/5.1
    #[arg(long, value_name = "DIR")]
    pub debian: Option<PathBuf>,
    /// HAProxy
    #[arg(long, value_name = "PATH")]
    pub haproxy: Option<PathBuf>,
    /// Caddy
    #[arg(long, value_name = "PATH")]
    pub caddy: Option<PathBuf>,
}

/// A way to choose a server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Method {
    /// As in the report and on the command line.
    pub name: &'static str,
    /// Who does it.
    pub program: Program,
    /// The directive in the upstream block (nginx), behind `balance` (HAProxy) or `lb_policy` (Caddy), or the Lua file.
    pub directive: &'static str,
    /// Only the first server is configured: what it can do by itself.
    pub first_only: bool,
    /// What the simulator may call it; the first name that it knows is taken. None: it has nothing of the kind.
    pub simulated: &'static [&'static str],
    /// Part of a run when no methods are named.
    usual: bool,
}

/// What runs a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// nginx with our module.
    Module,
    /// The same nginx without it.
    Nginx,
    /// The nginx that has least_time.
    LeastTime,
    /// Debian's nginx with upstream-fair.
    Fair,
    /// Debian's nginx with Lua.
    Lua,
    /// HAProxy.
    Haproxy,
    /// Caddy.
    Caddy,
}

/// Methods that do not run, each with the reason.
pub type LeftOut = Vec<(Method, String)>;

type Names = &'static [&'static str];
const LEAST_CONN: Names = &["least-conn"];
const RANDOM_TWO: Names = &["random-two"];
const LEAST_TIME: Names = &["least-time-last-byte", "least-time"];

const fn usual(name: &'static str, program: Program, directive: &'static str, simulated: Names) -> Method {
    Method { name, program, directive, first_only: false, simulated, usual: true }
}

const fn seldom(name: &'static str, program: Program, directive: &'static str) -> Method {
    Method { usual: false, ..usual(name, program, directive, &[]) }
}

/// All of them, in the order of the report.
pub const METHODS: &[Method] = &[
    usual("labor", Program::Module, "labor;", &["labor"]),
    seldom("labor_header", Program::Module, "labor header;"),
    seldom("labor_weighted", Program::Module, "labor policy=weighted;"),
    seldom("labor_decay", Program::Module, "labor policy=decay;"),
    seldom("labor_least_conn", Program::Module, "labor policy=least_conn;"),
    usual("round_robin", Program::Nginx, "", &["round-robin"]),
    usual("least_conn", Program::Nginx, "least_conn;", LEAST_CONN),
    usual("random_two", Program::Nginx, "random two least_conn;", RANDOM_TWO),
    usual("least_time_header", Program::LeastTime, "least_time header;", &["least-time-header", "least-time"]),
    usual("least_time_last_byte", Program::LeastTime, "least_time last_byte;", LEAST_TIME),
    usual("least_time_inflight", Program::LeastTime, "least_time last_byte inflight;", &["least-time-inflight"]),
    usual("least_conn_1.31", Program::LeastTime, "least_conn;", LEAST_CONN),
    usual("upstream_fair", Program::Fair, "fair;", &["upstream-fair", "fair"]),
    usual("lua_fastest", Program::Lua, "fastest", &[]),
    usual("lua_ewma", Program::Lua, "ewma", &["ingress-ewma", "ewma"]),
    usual("haproxy_leastconn", Program::Haproxy, "leastconn", LEAST_CONN),
    usual("haproxy_random", Program::Haproxy, "random", RANDOM_TWO),
    usual("caddy_least_conn", Program::Caddy, "least_conn", LEAST_CONN),
    Method { first_only: true, ..usual("first_alone", Program::Nginx, "", &[]) },
];

/// The methods of a run, and those that are left out with the reason.
///
/// # Errors
/// When a named one is unknown or its program is missing.
pub fn choose(names: &[String], programs: &Programs) -> Result<(Vec<Method>, LeftOut)> {
    let missing = |method: &Method| format!("no {} is given", method.program.option());
    if names.is_empty() {
        let usual = METHODS.iter().copied().filter(|method| method.usual);
        let (there, not): (Vec<_>, Vec<_>) = usual.partition(|method| programs.of(method.program).is_some());
        return Ok((there, not.into_iter().map(|method| (method, missing(&method))).collect()));
    }
    let mut methods = Vec::new();
    for name in names {
        let Some(method) = METHODS.iter().find(|method| method.name == name) else {
            let known: Vec<_> = METHODS.iter().map(|method| method.name).collect();
            bail!("unknown method \"{name}\"; known: {}", known.join(", "));
        };
        if programs.of(method.program).is_none() {
            bail!("{name}: {}", missing(method));
        }
        methods.push(*method);
    }
    Ok((methods, Vec::new()))
}

impl Program {
    /// The option that says where it is.
    const fn option(self) -> &'static str {
        match self {
            Self::Module | Self::Nginx => "--nginx",
            Self::LeastTime => "--least-time",
            Self::Fair | Self::Lua => "--debian",
            Self::Haproxy => "--haproxy",
            Self::Caddy => "--caddy",
        }
    }
}

impl Programs {
    fn of(&self, program: Program) -> Option<PathBuf> {
        match program {
            Program::Module | Program::Nginx => Some(self.nginx.clone()),
            Program::LeastTime => self.least_time.clone(),
            Program::Fair | Program::Lua => self.debian.as_ref().map(|dir| dir.join("run")),
            Program::Haproxy => self.haproxy.clone(),
            Program::Caddy => self.caddy.clone(),
        }
    }

    /// The command that runs a method in the foreground with its configuration in `dir`.
    pub fn command(&self, method: Method, workers: usize, dir: &Path) -> Option<Command> {
        let mut command = Command::new(self.of(method.program)?);
        let conf = dir.join("conf");
        match method.program {
            Program::Haproxy => command.args(["-db", "-f"]).arg(conf),
            Program::Caddy => {
                // What it would otherwise write into the home directory.
                command.envs(["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"].map(|name| (name, dir)));
                command.env("GOMAXPROCS", workers.to_string());
                command.args(["run", "--adapter", "caddyfile", "--config"]).arg(conf)
            }
            _ => command.args(["-e", "stderr", "-p"]).arg(dir).arg("-c").arg(conf),
        };
        Some(command)
    }

    /// What the programs of these methods call themselves, each once.
    pub fn versions(&self, methods: &[Method]) -> Vec<String> {
        let mut versions: Vec<String> = Vec::new();
        for method in methods {
            let Some(program) = self.of(method.program) else { continue };
            let argument = if method.program == Program::Caddy { "version" } else { "-v" };
            let Ok(output) = Command::new(program).arg(argument).output() else { continue };
            let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
            let line = said.lines().next().unwrap_or_default();
            let line = line.trim_start_matches("nginx version: ").split(" - http").next().unwrap_or_default().trim();
            let version = match method.program {
                Program::Caddy => format!("Caddy {line}"),
                Program::Module => format!("{line} with labor"),
                Program::LeastTime => format!("{line} (least_time)"),
                Program::Fair | Program::Lua => format!("{line} of Debian (upstream-fair, Lua)"),
                Program::Nginx | Program::Haproxy => line.to_owned(),
            };
            if !versions.iter().any(|known| known.starts_with(&version)) {
                versions.push(version);
            }
        }
        versions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_without_program_is_left_out_and_refused_when_named() {
        let programs = Programs {
            nginx: "n".into(),
            module: "m.so".into(),
            least_time: None,
            debian: None,
            haproxy: None,
            caddy: Some("c".into()),
        };
        let (there, left_out) = choose(&[], &programs).unwrap();
        let names: Vec<_> = there.iter().map(|method| method.name).collect();
        assert_eq!(names, ["labor", "round_robin", "least_conn", "random_two", "caddy_least_conn", "first_alone"]);
        assert!(left_out.iter().any(|(m, why)| m.name == "upstream_fair" && why.contains("--debian")));
        let named = |name: &str| choose(&[name.to_owned()], &programs).map(|chosen| chosen.0);
        assert!(named("haproxy_leastconn").is_err());
        assert!(named("fastest").is_err());
        assert_eq!(named("labor_decay").unwrap().len(), 1);
    }
}
