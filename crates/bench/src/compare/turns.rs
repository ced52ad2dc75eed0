//! Whose turn it is: which methods run at the same time, in which order, and how long all of it will take.

use std::time::Instant;

/// How methods share the machine.
#[derive(Clone, Copy)]
pub struct Turns {
    methods: usize,
    /// Methods that run at the same time.
    pub size: usize,
    /// Groups one after the other until each has had its turn.
    pub groups: usize,
}

impl Turns {
    /// For so many methods of `rate` requests per second each, of which the machine bears `together`; never more than
    /// `at_once` methods.
    pub fn new(methods: usize, rate: f64, together: f64, at_once: usize) -> Self {
        let most = ((together / rate) as usize).min(at_once).clamp(1, methods.max(1));
        let groups = methods.div_ceil(most);
        // Groups of like size: a small last one would have the machine for itself.
        Self { methods, size: methods.div_ceil(groups.max(1)), groups }
    }

    /// The groups of a seed, as indexes; drawn by the seed, so that no method always runs beside or after the same one.
    pub fn of(&self, seed: u64) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.methods).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut order);
        order.chunks(self.size.max(1)).map(<[usize]>::to_vec).collect()
    }
}

/// Time that has passed and that is to come.
pub struct Clock {
    begun: Instant,
    /// Forecast seconds of everything.
    total: f64,
    /// Forecast seconds of what is done.
    done: f64,
}

impl Clock {
    /// Starts at `now` for work of `total` seconds.
    pub fn new(now: Instant, total: f64) -> Self {
        Self { begun: now, total, done: 0.0 }
    }

    /// Books work that was forecast to take so many seconds.
    pub fn done(&mut self, seconds: f64) {
        self.done += seconds;
    }

    /// "3:20 so far, about 14:10 to go".
    pub fn say(&self, now: Instant) -> String {
        format!("{} so far, about {} to go", self.elapsed(now), minutes((self.total - self.done).max(0.0)))
    }

    /// "3:20"
    pub fn elapsed(&self, now: Instant) -> String {
        minutes((now - self.begun).as_secs_f64())
    }
}

fn minutes(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    #[test]
    fn every_method_has_one_turn_in_groups_of_like_size() {
        for (methods, rate, groups) in [(15, 100.0, 1), (15, 400.0, 4), (15, 5000.0, 15), (1, 1.0, 1), (7, 500.0, 3)] {
            let turns = Turns::new(methods, rate, 1600.0, 99);
            let drawn = turns.of(3);
            assert_eq!((turns.groups, drawn.len()), (groups, groups), "{methods} of {rate}");
            assert!(
                drawn.iter().all(|group| group.len() <= turns.size && group.len() as f64 * rate <= rate.max(1600.0))
            );
            let mut all = drawn.concat();
            all.sort_unstable();
            assert_eq!(all, (0..methods).collect::<Vec<_>>());
        }
        let turns = Turns::new(15, 400.0, 1600.0, 99);
        assert_eq!(turns.of(1), turns.of(1));
        assert_ne!(turns.of(1), turns.of(2));
        assert_eq!(Turns::new(15, 1.0, 1600.0, 1).groups, 15);
    }

    #[test]
    fn times_are_told_in_minutes() {
        let begun = now();
        let mut clock = Clock::new(begun, 850.0);
        clock.done(65.4);
        assert_eq!(clock.say(begun + std::time::Duration::from_secs(200)), "3:20 so far, about 13:05 to go");
    }
}
