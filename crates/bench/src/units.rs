//! Times, shares and sizes as people write them on a command line.
//!
//! One parser for the SPEC language of the model servers and for the options of the load generator.

use std::time::Duration;

use anyhow::{Context, Result, bail};

/// The longest time that is accepted, one day: a typing error must not leave a process waiting for years.
const LONGEST: Duration = Duration::from_secs(86_400);

/// A parser for the command line, whose errors show every cause: clap prints only the outermost.
pub fn explained<T>(parse: fn(&str) -> Result<T>) -> impl Fn(&str) -> Result<T, String> + Clone {
    move |text| parse(text).map_err(|error| format!("{error:#}"))
}

/// A time with a unit: `250us`, `5ms`, `1.5s`, `2m`, or a bare `0`. At most one day.
pub fn duration(text: &str) -> Result<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().with_context(|| format!("\"{text}\" is not a time such as 5ms"))?;
    let seconds = match unit {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "s" => number,
        "m" => number * 60.0,
        "" if number == 0.0 => 0.0,
        "" => bail!("\"{text}\" needs a unit: us, ms, s or m"),
        _ => bail!("unit \"{unit}\" in \"{text}\" is not one of us, ms, s, m"),
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time <= LONGEST => Ok(time),
        _ => bail!("\"{text}\" is longer than one day"),
    }
}

/// A probability in 0–1.
pub fn probability(text: &str) -> Result<f64> {
    let value: f64 = text.parse().with_context(|| format!("\"{text}\" is not a probability"))?;
    if !(0.0..=1.0).contains(&value) {
        bail!("probability \"{text}\" is not in 0 to 1");
    }
    Ok(value)
}

/// A count, with an optional `k` (thousand) or `m` (million) behind it.
pub fn count(text: &str) -> Result<u64> {
    let (number, factor) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1_000),
        None => match text.strip_suffix(['m', 'M']) {
            Some(number) => (number, 1_000_000),
            None => (text, 1),
        },
    };
    let number: u64 = number.parse().with_context(|| format!("\"{text}\" is not a count"))?;
    number.checked_mul(factor).with_context(|| format!("\"{text}\" is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_a_unit_and_keep_microseconds() {
        assert_eq!(duration("1.5ms").unwrap(), Duration::from_micros(1500));
        assert_eq!(duration("250us").unwrap(), Duration::from_micros(250));
        assert_eq!(duration("2m").unwrap(), Duration::from_secs(120));
        assert_eq!(duration("0").unwrap(), Duration::ZERO);
        for wrong in ["5", "", "ms", "-1s", "1h", "1.2.3s", "86401s"] {
            assert!(duration(wrong).is_err(), "{wrong} was accepted");
        }
    }

    #[test]
    fn probabilities_and_counts_are_checked() {
        assert_eq!(probability("0.25").unwrap(), 0.25);
        assert!(probability("1.01").is_err() && probability("NaN").is_err());
        assert_eq!(count("64k").unwrap(), 64_000);
        assert_eq!(count("7").unwrap(), 7);
        assert!(count("-7").is_err() && count("99999999999999m").is_err());
    }
}
