//! What a scenario must not say, in words that name the value; and servers with a count, one by one.

use super::{Effect, Event, Scenario, ServerSpec};

fn positive(name: &str, x: f64) -> Result<(), String> {
    if x.is_finite() && x > 0.0 { Ok(()) } else { Err(format!("{name} must be above 0, is {x}")) }
}

fn share(name: &str, x: f64) -> Result<(), String> {
    if (0.0..=1.0).contains(&x) { Ok(()) } else { Err(format!("{name} must be in 0–1, is {x}")) }
}

fn count(name: &str, n: u32, most: u32) -> Result<(), String> {
    if (1..=most).contains(&n) { Ok(()) } else { Err(format!("{name} must be in 1–{most}, is {n}")) }
}

impl Scenario {
    /// Says what is wrong with the values, if anything.
    pub(super) fn check(&self) -> Result<(), String> {
        positive("rate", self.rate)?;
        positive("duration", self.duration)?;
        positive("timeout", self.timeout)?;
        if !(0.0..=3600.0).contains(&self.slow_start) {
            return Err(format!("slow_start must be in 0–3600, is {}", self.slow_start));
        }
        if !(0.0..self.duration).contains(&self.warmup) {
            return Err(format!("warmup must be shorter than duration, is {}", self.warmup));
        }
        if self.server.is_empty() {
            return Err("a scenario needs at least one [[server]]".into());
        }
        count("balancers", self.balancers, 10_000)?;
        count("workers", self.workers, 1_000)?;
        count("tries", self.tries, 4)?;
        share("safe", self.safe)?;
        if let Some(session) = self.session {
            share("session.share", session.share)?;
            positive("session.lasts", session.lasts)?;
        }
        if let Some(keys) = self.keys {
            count("keys.count", keys.count, 1_000_000)?;
            share("keys.hot", keys.hot)?;
        }
        for (i, server) in self.server.iter().enumerate() {
            server.check().map_err(|e| format!("[[server]] number {}: {e}", i + 1))?;
        }
        self.service.fault().map_or(Ok(()), |fault| Err(format!("service: {fault}")))
    }
}

impl ServerSpec {
    fn check(&self) -> Result<(), String> {
        positive("service_ms", self.service_ms)?;
        if let Some(to) = self.service_to_ms {
            positive("service_to_ms", to)?;
        }
        count("concurrency", self.concurrency, 1_000_000)?;
        count("count", self.count, 100_000)?;
        if !(self.net_ms >= 0.0 && self.net_ms.is_finite()) {
            return Err(format!("net_ms must be at least 0, is {}", self.net_ms));
        }
        if self.leave.is_some_and(|leave| leave <= self.join) {
            return Err("leave must come after join".into());
        }
        for event in &self.event {
            event.check()?;
        }
        self.own.as_ref().and_then(|own| own.fault()).map_or(Ok(()), |fault| Err(format!("own: {fault}")))
    }
}

impl Event {
    fn check(&self) -> Result<(), String> {
        if self.at.is_nan() || self.at < 0.0 {
            return Err(format!("event.at must be at least 0, is {}", self.at));
        }
        if let Some(every) = self.every {
            positive("event.every", every)?;
        }
        match self.effect {
            Effect::Slow { factor } => positive("event.factor", factor),
            Effect::Fail { share: part, after_ms } => {
                share("event.share", part)?;
                if after_ms >= 0.0 { Ok(()) } else { Err("event.after_ms must be at least 0".into()) }
            }
            Effect::Cold { factor, .. } => positive("event.factor", factor),
            Effect::Antagonist { factor, share: part, burst_ms } => {
                positive("event.factor", factor)?;
                positive("event.burst_ms", burst_ms)?;
                if part > 0.0 && part < 1.0 { Ok(()) } else { Err("event.share must be between 0 and 1".into()) }
            }
            Effect::Pause if self.lasts.is_none() => Err("a pause needs event.lasts; what never ends is a hang".into()),
            Effect::Pause | Effect::Hang => Ok(()),
        }
    }
}

/// The servers that a specification with a count stands for.
pub(super) fn expand(spec: &ServerSpec) -> Vec<ServerSpec> {
    (0..spec.count)
        .map(|i| {
            let mut server = ServerSpec { count: 1, service_to_ms: None, ..spec.clone() };
            if let Some(to) = spec.service_to_ms {
                server.service_ms += (to - spec.service_ms) * f64::from(i) / f64::from((spec.count - 1).max(1));
            }
            for event in &mut server.event {
                event.at += spec.stagger * f64::from(i);
            }
            server
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "about='x'\nrate=10\nduration=5\n[[server]]\ncount=3\nservice_ms=5\nservice_to_ms=15\nconcurrency=2\n";

    #[test]
    fn counts_expand_evenly() {
        let scenario = Scenario::parse(GOOD).unwrap();
        let means: Vec<_> = scenario.server.iter().map(|s| s.service_ms).collect();
        assert_eq!(means, [5.0, 10.0, 15.0]);
        assert_eq!(scenario.fastest(), [true, false, false]);
    }

    #[test]
    fn faults_are_named() {
        let event = |what: &str| format!("{GOOD}[[server.event]]\nat=1\n{what}\n");
        for (bad, word) in [
            (GOOD.replace("rate=10", "rate=0"), "rate must be above 0"),
            (GOOD.replace("rate=10", "rate=10\nwarmup=9"), "warmup"),
            (GOOD.replace("rate=10", "rate=10\nspeed=9"), "line 3"),
            (GOOD.replace("rate=10", "rate=10\nslow_start=-1.0"), "slow_start"),
            (GOOD.replace("rate=10", "rate=10\ntries=9"), "tries must be in 1–4"),
            (GOOD.replace("concurrency=2", "concurrency=0"), "number 1: concurrency"),
            (GOOD.replace("concurrency=2", "concurrency=2\nleave=0"), "leave"),
            (GOOD.replace("[[server]]", "watch={server=7,from=1}\n[[server]]"), "watch.server"),
            (GOOD.replace("[[server]]", "service={kind='trace',file='none.txt'}\n[[server]]"), "none.txt"),
            (event("effect='pause'"), "event.lasts"),
            (event("effect='fail'\nshare=2"), "event.share"),
            (event("effect='antagonist'\nfactor=2\nshare=1.0\nburst_ms=5"), "event.share"),
        ] {
            let error = Scenario::parse(&bad).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
