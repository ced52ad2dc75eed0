//! Words of directives.
//!
//! The module's own source is compiled here, because a library that nginx loads cannot be linked to a test. Not here: how nginx
//! cuts lines into words (`scripts/fuzz` sends lines through nginx itself).

use labor_core::params::StatusSet;

#[path = "../../../src/conf/parameters.rs"]
mod parameters;

/// The shape of nginx's times, ms: digits with units in falling order, none larger than fits.
fn parse_time(text: &[u8]) -> Option<u64> {
    const UNITS: [(&[u8], u64); 8] = [
        (b"y", 31_536_000_000),
        (b"M", 2_592_000_000),
        (b"w", 604_800_000),
        (b"d", 86_400_000),
        (b"h", 3_600_000),
        (b"ms", 1),
        (b"m", 60_000),
        (b"s", 1_000),
    ];
    let (mut rest, mut sum, mut last) = (text, 0_u64, u64::MAX);
    while !rest.is_empty() {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number: u64 = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
        rest = &rest[digits..];
        let (length, unit) = if rest.is_empty() {
            (0, 1_000)
        } else {
            UNITS.iter().find(|(name, _)| rest.starts_with(name)).map(|(name, unit)| (name.len(), *unit))?
        };
        rest = &rest[length..];
        if unit >= last {
            return None;
        }
        last = unit;
        sum = sum.checked_add(number.checked_mul(unit)?)?;
    }
    (!text.is_empty()).then_some(sum)
}

/// Words behind `labor`, one a line. What is accepted is in its range; what is refused is refused in words.
pub fn directive(data: &[u8]) {
    let words = data.split(|byte| *byte == b'\n').filter(|word| !word.is_empty());
    match parameters::parse(words, parse_time) {
        Ok(params) => {
            assert!((100_000..=600_000_000).contains(&params.half_life), "half_life {}", params.half_life);
            assert!((0.0..=0.1).contains(&params.explore), "explore {}", params.explore);
            let slow_start = params.slow_start;
            assert!(slow_start == 0 || (1_000_000..=3_600_000_000).contains(&slow_start), "slow_start {slow_start}");
            let outside = |status: u16| !(400..=599).contains(&status) && params.failure.contains(status);
            assert!(params.failure != StatusSet::EMPTY && !(0..=999).any(outside), "failure");
        }
        Err(message) => {
            assert!(message.contains("parameter"), "{message}");
            assert!(message.len() <= 3 * data.len() + 300, "a message longer than what was said");
        }
    }
}
