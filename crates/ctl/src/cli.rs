//! The command line: what may be said, and the help for it.

use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::target::Target;
use crate::view::Sort;

/// See and steer the upstreams of an nginx with labor
#[derive(Parser)]
#[command(version, max_term_width = 100, subcommand_required = true, arg_required_else_help = true, after_help = AFTER)]
pub struct Cli {
    /// Where and how.
    #[command(flatten)]
    pub options: Options,
    /// What.
    #[command(subcommand)]
    pub command: Command,
}

const AFTER: &str = "\
URL is http://HOST:PORT/PATH (also http://USER:PASSWORD@HOST…) or unix:/path/to.sock:/PATH.

Exit status:
  0  done
  1  the server refused
  2  wrong usage
  3  no connection, or no complete answer in time
  4  the address stands for several servers
  5  there is no such upstream or server
  6  what answers is not labor, or another version of it
  7  the result could not be written";

/// What is common to all commands.
#[derive(Args)]
pub struct Options {
    /// The labor_status location, for status, top and events
    #[arg(long, global = true, value_name = "URL", env = "LABOR_STATUS", hide_env_values = true,
          default_value = "http://127.0.0.1:8081/labor", value_parser = Target::parse)]
    pub url: Target,
    /// The labor_api location, for everything that changes something
    #[arg(long, global = true, value_name = "URL", env = "LABOR_API", hide_env_values = true,
          default_value = "http://127.0.0.1:8081/labor/control/", value_parser = Target::parse)]
    pub api: Target,
    /// How long one exchange with the server may take, such as 500ms or 10s
    #[arg(long, global = true, value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub timeout: Duration,
    /// Print what the server answers, as ASCII JSON, one answer a line
    #[arg(long, global = true)]
    pub json: bool,
    /// Colours; `auto`: on a terminal, unless NO_COLOR is set or TERM is dumb
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: Color,
}

/// When colours are used.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal that wants them
    Auto,
    /// Into files too
    Always,
    /// Not at all
    Never,
}

/// The commands.
#[derive(Subcommand)]
pub enum Command {
    /// Show every server: state, response times, share of the traffic, the last change
    Status {
        /// Only this one
        upstream: Option<String>,
        /// How the tables are made.
        #[command(flatten)]
        table: TableOptions,
    },
    /// Show the same again and again; keys: q quits, s sorts, r reverses, arrows scroll, space pauses
    Top {
        /// Only this one
        upstream: Option<String>,
        /// How the tables are made.
        #[command(flatten)]
        table: TableOptions,
        /// Time between two looks
        #[arg(long, short, value_name = "TIME", default_value = "1s", value_parser = duration)]
        interval: Duration,
        /// End after so many looks
        #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        count: Option<u64>,
    },
    /// Show the last events, the newest at the end
    Events {
        /// Only this one
        upstream: Option<String>,
        /// Go on and show new ones as they come
        #[arg(long, short)]
        follow: bool,
        /// Time between two looks, with --follow
        #[arg(long, short, value_name = "TIME", default_value = "1s", value_parser = duration)]
        interval: Duration,
    },
    /// No new requests to a server, except those of sessions bound to it
    Drain(Place),
    /// No requests at all to a server
    Down(Place),
    /// Requests again to a server, whatever the configuration says
    Up(Place),
    /// Set the weight of a server: its capacity
    Weight {
        /// Which server.
        #[command(flatten)]
        place: Place,
        /// 0 (drain) to 65535, or `default`: what the configuration says
        #[arg(value_name = "N", value_parser = value::<65535>)]
        value: Value,
    },
    /// Limit the connections to a server, counted over all workers
    MaxConns {
        /// Which server.
        #[command(flatten)]
        place: Place,
        /// 0 is no limit; `default`: what the configuration says
        #[arg(value_name = "N", value_parser = value::<{ u32::MAX }>)]
        value: Value,
    },
    /// Back to the configuration with everything that was set for a server
    Clear(Place),
    /// Forget what was learned and counted for all servers of an upstream
    Reset {
        /// Which one
        upstream: String,
    },
    /// Print the completions for a shell
    Completions {
        /// Which one
        shell: Shell,
    },
    /// Print the manual page, for man(1)
    Man,
}

/// How tables are made.
#[derive(Args)]
pub struct TableOptions {
    /// What the servers are sorted by
    #[arg(long, short, value_name = "KEY", default_value = "server")]
    pub sort: Sort,
    /// The other way round
    #[arg(long, short)]
    pub reverse: bool,
    /// What to call the server at an address; may repeat
    #[arg(long, value_name = "ADDRESS=NAME")]
    pub label: Vec<String>,
}

/// Which server.
#[derive(Args)]
pub struct Place {
    /// Its address (10.0.0.1:80), its host if it has one server only, its name in the configuration, or with --upstream its number
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub address: String,
    /// Which upstream, if the address is in several
    #[arg(long, short, value_name = "NAME")]
    pub upstream: Option<String>,
    /// All servers with that address, in all upstreams
    #[arg(long, short)]
    pub all: bool,
}

/// A number, or back to the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Set to this.
    Number(u32),
    /// As configured.
    Default,
}

fn value<const MAX: u32>(text: &str) -> Result<Value, String> {
    match text {
        "default" => Ok(Value::Default),
        // Only digits: "+5" is a mistake more often than a number.
        _ if text.bytes().all(|b| b.is_ascii_digit()) => {
            text.parse().ok().filter(|n| *n <= MAX).map(Value::Number).ok_or(format!("not from 0 to {MAX}"))
        }
        _ => Err(format!("neither a number from 0 to {MAX} nor `default`")),
    }
}

/// A time longer than nothing and up to a day: `500ms`, `2s`, `1m`, or seconds without a unit.
fn duration(text: &str) -> Result<Duration, String> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let scale = match unit {
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("unknown unit: ms, s, m or h".into()),
    };
    let seconds = number.parse::<f64>().map_err(|_| "no number".to_string())? * scale;
    if (1e-3..=86_400.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("not from 1ms to 24h".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_and_values_are_checked() {
        let ms = |text| duration(text).map(|d| d.as_millis());
        assert_eq!((ms("500ms"), ms("2"), ms("1.5s"), ms("1m")), (Ok(500), Ok(2000), Ok(1500), Ok(60_000)));
        for wrong in ["", "s", "-1s", "0", "nan", "inf", "25h", "1d", "1 s", "1e9"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(value::<65535>("65535"), Ok(Value::Number(65535)));
        assert_eq!(value::<65535>("default"), Ok(Value::Default));
        for wrong in ["65536", "-1", "+1", "", " 1", "1.0", "99999999999", "Default"] {
            assert!(value::<65535>(wrong).is_err(), "{wrong}");
        }
    }
}
