//! What labor would have done with a log, in words and figures, and what such a statement is worth.

use super::{Log, Model};
use crate::compare::{average, short};
use crate::policy::Kind;
use crate::run;
use crate::stats::{Summary, quantile};
use std::fmt::Write as _;

/// What labor is compared with, beside what was logged.
pub const BASELINES: [Kind; 4] = [Kind::RoundRobin, Kind::LeastConn, Kind::LeastTime, Kind::Labor];
/// Runs per policy.
const SEEDS: u64 = 3;
/// The model's mean may be this far from the log's before it is said to be off.
const TRUSTED: f64 = 0.15;
/// Less than this is no difference.
const NOTABLE: f64 = 0.02;

/// The whole text.
pub fn report(log: &Log, model: &Model) -> String {
    let mut out = facts(log, model);
    let runs = |kind: Kind| -> Vec<Summary> { (1..=SEEDS).map(|seed| run(&model.scenario, kind, seed)).collect() };
    let mean = |runs: &[Summary]| average(&runs.iter().map(|s| s.mean).collect::<Vec<_>>());
    let p99 = |runs: &[Summary]| average(&runs.iter().map(|s| s.p99).collect::<Vec<_>>());
    let logged = logged(model);
    let replay = runs(Kind::Replay);
    let off = mean(&replay) / logged.0 - 1.0;
    let _ = writeln!(out, "\nAs logged:                  mean {} ms, p99 {} ms", short(logged.0), short(logged.1));
    let _ = writeln!(
        out,
        "The model, sent the same:   mean {} ms, p99 {} ms. {}",
        short(mean(&replay)),
        short(p99(&replay)),
        if off.abs() <= TRUSTED {
            format!("Its mean is {:+.0} % off: good enough to compare policies.", 100.0 * off)
        } else {
            format!(
                "Its mean is {:+.0} % off: MORE THAN {:.0} %, TRUST THE REST ONLY ROUGHLY.",
                100.0 * off,
                100.0 * TRUSTED
            )
        }
    );
    let _ = writeln!(out, "\nThe same requests at the same times, sent by (simulated, {SEEDS} runs each):");
    let _ = writeln!(
        out,
        "  {:<13} {:>9} {:>9} {:>9} {:>7}  shares %",
        "policy", "mean ms", "p99 ms", "p99.9 ms", "failed"
    );
    let mut line = |kind: Kind, runs: &[Summary]| {
        let share = |i| format!("{:.0}", 100.0 * average(&runs.iter().map(|s| s.share(i)).collect::<Vec<_>>()));
        let shares: Vec<_> = (0..model.seen.len().min(12)).map(share).collect();
        let p999 = average(&runs.iter().map(|s| s.p999).collect::<Vec<_>>());
        let errors = average(&runs.iter().map(Summary::errors).collect::<Vec<_>>());
        let (m, p) = (short(mean(runs)), short(p99(runs)));
        let _ = writeln!(
            out,
            "  {:<13} {m:>9} {p:>9} {:>9} {errors:>6.2}%  {}",
            kind.name(),
            short(p999),
            shares.join(" ")
        );
    };
    line(Kind::Replay, &replay);
    let mut labor = Vec::new();
    for kind in BASELINES {
        let all = runs(kind);
        line(kind, &all);
        if kind == Kind::Labor {
            labor = all;
        }
    }
    out + &verdict((mean(&replay), p99(&replay)), (mean(&labor), p99(&labor))) + LIMITS
}

fn verdict(was: (f64, f64), would: (f64, f64)) -> String {
    let change = would.0 / was.0 - 1.0;
    let tail = format!(
        "99th percentile {} instead of {} ms ({:+.0} %)",
        short(would.1),
        short(was.1),
        100.0 * (would.1 / was.1 - 1.0)
    );
    let means = format!("{} instead of {} ms on average ({:+.0} %)", short(would.0), short(was.0), 100.0 * change);
    match change {
        c if c < -NOTABLE => format!("\nlabor would have answered in {means}; {tail}.\n"),
        c if c > NOTABLE => format!("\nlabor would have been slower here: {means}; {tail}.\n"),
        _ => format!("\nlabor would have made little difference: {means}; {tail}.\n"),
    }
}

/// Mean and 99th percentile as logged, ms.
fn logged(model: &Model) -> (f64, f64) {
    let mut all: Vec<f32> = model.logged.iter().map(|s| (1000.0 * s) as f32).collect();
    let mean = all.iter().map(|&x| f64::from(x)).sum::<f64>() / all.len().max(1) as f64;
    (mean, quantile(&mut all, 0.99))
}

fn facts(log: &Log, model: &Model) -> String {
    let s = &model.scenario;
    let mut out = format!(
        "{}: {} requests in {:.1} minutes to {} servers, {:.2} a second",
        s.name,
        log.entries.len(),
        s.duration / 60.0,
        model.seen.len(),
        s.rate
    );
    let _ = writeln!(
        out,
        "; {} failed, {} went to no server, {} lines unreadable",
        model.failed, log.elsewhere, log.unreadable
    );
    let _ = writeln!(
        out,
        "  {:<24} {:>9} {:>7} {:>9} {:>9} {:>7} {:>8} {:>8}",
        "server", "answers", "share", "mean ms", "p99 ms", "failed", "places", "changes"
    );
    let all = model.seen.iter().map(|s| s.times.len()).sum::<usize>().max(1);
    for seen in &model.seen {
        let mut times: Vec<f32> = seen.times.iter().map(|t| (1000.0 * t) as f32).collect();
        let mean = times.iter().map(|&x| f64::from(x)).sum::<f64>() / times.len().max(1) as f64;
        let (k, shown) = seen.places;
        let places = if shown { format!("{k}") } else { format!(">{}", k / 2) };
        let _ = writeln!(
            out,
            "  {:<24} {:>9} {:>6.1}% {:>9} {:>9} {:>7} {places:>8} {:>8}",
            seen.addr,
            times.len(),
            100.0 * times.len() as f64 / all as f64,
            short(mean),
            short(quantile(&mut times, 0.99)),
            seen.failed,
            seen.changes
        );
    }
    out + "  places: requests a server seems to work on at once (>n: no limit was seen up to n); changes: minutes in which it was\n  \
           1.5 times slower or faster than usual.\n"
}

const LIMITS: &str = "
What this cannot know:
- Servers are modelled from their answers under the load they had. How one behaves under more load than it ever had is a
  guess: proportional to the queue beyond its places, and twice the most it ever had in flight where no limit was seen.
- Network time and work are one. Fast and slow requests are drawn at random; in truth some URLs are slow wherever they go.
- Times have the log's resolution of a millisecond, and begin when nginx chose the server; a slow client that delays the
  end of a request shifts its beginning.
- If several nginx hosts use these servers, a log of one of them shows only a part of their load.
- labor starts knowing nothing, as after its installation; round robin and the others as nginx has them, weights all 1,
  without max_fails.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Format, model};

    #[test]
    fn a_log_in_turn_over_unequal_servers_is_told_what_it_loses() {
        let mut text = String::new();
        for i in 0..3000u32 {
            let (addr, time) = if i % 2 == 0 { ("10.0.0.1:80", 0.010) } else { ("10.0.0.2:80", 0.090) };
            let _ = writeln!(text, "{:.3} {addr} {time:.3} 200", 1.7e9 + f64::from(i) / 50.0 + time);
        }
        text += "cut in the mid";
        let mut log = Log::default();
        let format = Format::parse("$msec $upstream_addr $upstream_response_time $upstream_status").unwrap();
        log.add("a.log", &text, &format).unwrap();
        log.sort();
        let said = report(&log, &model("a.log", &log).unwrap());
        for part in [
            "3000 requests in 1.0 minutes to 2 servers",
            "1 lines unreadable",
            "good enough",
            "labor would have answered in",
        ] {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!(said, report(&log, &model("a.log", &log).unwrap()));
    }

    #[test]
    fn too_many_bad_lines_are_an_error_with_the_first_one() {
        let format = Format::parse("$msec $upstream_addr $upstream_response_time").unwrap();
        let error = Log::default().add("a.log", "1.0 10.0.0.1:80 0.1\nnonsense\n", &format).unwrap_err();
        assert!(error.contains("a.log:2:") && error.contains("nonsense") && error.contains("log_format"), "{error}");
        assert!(crate::log::text(&[0x1f, 0x8b, 0, 1]).is_err());
    }
}
