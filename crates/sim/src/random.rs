//! Settings drawn at random, so that nothing can be tuned on them.

use crate::dist::Dist;
use crate::scenario::{Scenario, ServerSpec};
use crate::stream;
use labor_core::rng::Rng;

/// Requests of one setting, about.
const REQUESTS: f64 = 150_000.0;
/// Shortest and longest setting, seconds: long enough to learn in, short enough to wait for.
const DURATION: (f64, f64) = (15.0, 300.0);
/// Settings with more requests a second than this are drawn again: they would last too short or take too long.
const FASTEST: f64 = 30_000.0;

/// The setting of `seed`: 3–20 servers, concurrency 1–32, service 1–20 ms spread by up to e^±1.5, network 0.3–20 ms,
/// exponential, lognormal or bimodal sizes, load 0.2–0.8, one or four balancers.
pub fn setting(seed: u64) -> Scenario {
    let mut rng = Rng::new(stream(seed, 77));
    loop {
        let scenario = draw(&mut rng, seed);
        if scenario.rate <= FASTEST {
            return scenario;
        }
    }
}

fn draw(rng: &mut Rng, seed: u64) -> Scenario {
    let n = 3 + (rng.unit() * 18.0) as usize;
    let service = log_uniform(rng, 1.0, 20.0);
    // The square root draws more wide settings than narrow ones: equal servers have scenarios of their own.
    let spread = rng.unit().sqrt() * 1.5;
    let net = log_uniform(rng, 0.3, 20.0);
    let k = 1.0 + 32.0 * rng.unit();
    // Half of the settings have one concurrency, or one network time, for all servers.
    let (same_k, same_net) = (rng.unit() < 0.5, rng.unit() < 0.5);
    let server: Vec<_> = (0..n)
        .map(|_| ServerSpec {
            service_ms: service * ((2.0 * rng.unit() - 1.0) * spread).exp(),
            net_ms: if same_net { net } else { log_uniform(rng, 0.3, 20.0) },
            concurrency: if same_k { k } else { 1.0 + 32.0 * rng.unit() } as u32,
            ..ServerSpec::default()
        })
        .collect();
    let sizes = match (rng.unit() * 3.0) as u32 {
        0 => Dist::Exp,
        1 => Dist::LogNormal { sigma: 0.3 + 0.9 * rng.unit() },
        _ => Dist::Bimodal { share: 0.02 + 0.18 * rng.unit(), factor: log_uniform(rng, 3.0, 30.0) },
    };
    let load = 0.2 + 0.6 * rng.unit();
    let rate = load * server.iter().map(|s| f64::from(s.concurrency) / s.service_ms * 1000.0).sum::<f64>();
    let duration = (REQUESTS / rate).clamp(DURATION.0, DURATION.1);
    Scenario {
        name: format!("random-{seed}"),
        about: format!(
            "n {n}, service {service:.1} ms e^±{spread:.2}, k {k:.0} {same_k}, net {net:.1} {same_net}, load {load:.2}, {sizes:?}"
        ),
        rate,
        duration,
        // By then the curves are learned; what learning costs is judged by scenarios of its own.
        warmup: 5.0,
        service: sizes,
        balancers: if rng.unit() < 0.5 { 1 } else { 4 },
        workers: 1,
        safe: 1.0,
        timeout: 60.0,
        server,
        ..Scenario::default()
    }
}

fn log_uniform(rng: &mut Rng, from: f64, to: f64) -> f64 {
    from * (rng.unit() * (to / from).ln()).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_stay_within_what_is_promised() {
        for seed in 0..300 {
            let scenario = setting(seed);
            assert!((3..=20).contains(&scenario.server.len()));
            assert!(scenario.rate <= FASTEST && [1, 4].contains(&scenario.balancers));
            for server in &scenario.server {
                assert!((1..=32).contains(&server.concurrency), "{server:?}");
                assert!((0.3..=20.0).contains(&server.net_ms), "{server:?}");
            }
            assert!(scenario.service.fault().is_none());
        }
    }
}
