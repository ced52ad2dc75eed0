//! The machine that figures come from: what it is and how busy, as Linux tells in /proc.

use anyhow::{Context, Result};

/// Processor time so far, in ticks.
#[derive(Clone, Copy)]
pub struct Usage {
    busy: u64,
    all: u64,
}

impl Usage {
    /// Of all processors and programs.
    ///
    /// # Errors
    /// When /proc/stat does not tell.
    pub fn now() -> Result<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat")?).context("/proc/stat")
    }

    fn parse(text: &str) -> Option<Self> {
        // user nice system idle iowait irq softirq steal; guest times are part of user's.
        let numbers = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace().map(str::parse);
        let ticks: Vec<u64> = numbers.take(8).collect::<Result<_, _>>().ok()?;
        let (all, idle) = (ticks.iter().sum::<u64>(), ticks.get(3)? + ticks.get(4)?);
        Some(Self { busy: all - idle, all })
    }

    /// The share of all processors' time since then that was used, 0–1.
    ///
    /// # Errors
    /// As [`Usage::now`].
    pub fn busy_since(self) -> Result<f64> {
        let now = Self::now()?;
        Ok((now.busy.saturating_sub(self.busy)) as f64 / (now.all.saturating_sub(self.all)).max(1) as f64)
    }
}

/// "2 cores, Intel(R) Xeon(R) Processor"
pub fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1.trim()));
    format!("{cores} cores, {}", model.unwrap_or("of unknown make"))
}

/// The load average of the last minute, or `?`.
pub fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("?").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read() {
        let usage = Usage::parse("cpu  10 1 5 80 4 0 0 0 3 0\ncpu0 1 1 1 1\n").unwrap();
        assert_eq!((usage.busy, usage.all), (16, 100));
        assert!(Usage::parse("intr 5").is_none());
        assert!(describe().contains(" cores, "));
    }
}
