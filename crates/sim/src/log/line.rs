//! One line of an access log: which servers a request went to, when, and how long each took.

use serde_json::Value;

/// One attempt at one server.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Address.
    pub addr: String,
    /// Seconds it took; `None` when the log has no time for it: no connection.
    pub time: Option<f64>,
    /// Status of the answer, if the log has it.
    pub status: Option<u16>,
}

impl Attempt {
    /// Whether it failed: no answer, 429, or 5xx but 501 and 505.
    pub fn failed(&self) -> bool {
        self.time.is_none() || self.status.is_some_and(|s| s == 429 || (s >= 500 && !matches!(s, 501 | 505)))
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// When it was logged, seconds since 1970.
    pub ended: f64,
    /// Its attempts, in order.
    pub attempts: Vec<Attempt>,
}

impl Entry {
    /// When its first attempt began.
    pub fn began(&self) -> f64 {
        self.ended - self.attempts.iter().filter_map(|a| a.time).sum::<f64>()
    }
}

/// How lines are written.
#[derive(Clone, Debug)]
pub enum Format {
    /// JSON objects, or `name=value` pairs.
    Named,
    /// As `log_format` says: (text before, variable).
    Given(Vec<(String, String)>, String),
}

/// Looks a variable of a line up.
type Values<'a> = Box<dyn Fn(&str) -> Option<String> + 'a>;

/// Nothing can be said without these.
const NEEDED: [&str; 3] = ["msec", "upstream_addr", "upstream_response_time"];

impl Format {
    /// From the text of a `log_format`.
    ///
    /// # Errors
    /// When it lacks a variable that is needed, or two variables touch.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        let mut before = String::new();
        while let Some(at) = rest.find('$') {
            before.push_str(&rest[..at]);
            let name = rest[at + 1..].trim_start_matches('{');
            let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
            if before.is_empty() && !parts.is_empty() {
                return Err(format!("--format: nothing stands before ${}, so its value cannot be found", &name[..end]));
            }
            parts.push((std::mem::take(&mut before), name[..end].to_owned()));
            rest = name[end..].trim_start_matches('}');
        }
        for needed in NEEDED {
            if !parts.iter().any(|(_, name)| name == needed) {
                return Err(format!("--format: ${needed} is missing. It can be '{}'", super::HINT));
            }
        }
        Ok(Self::Given(parts, rest.to_owned()))
    }

    /// Reads a line; `None` when the request went to no server.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(&self, line: &str) -> Result<Option<Entry>, String> {
        let value = self.values(line)?;
        let help = if matches!(self, Self::Named) { " (neither JSON nor name=value: give --format)" } else { "" };
        let get = |name: &str| value(name).ok_or_else(|| format!("no {name} in this line{help}"));
        let msec = get("msec")?;
        let ended: f64 =
            msec.parse().map_err(|_| format!("'{msec}' is no time as $msec writes it (1700000000.123)"))?;
        let (addrs, times) = (get("upstream_addr")?, get("upstream_response_time")?);
        if addrs.is_empty() || addrs == "-" {
            return Ok(None);
        }
        let (addrs, times) = (joined(&addrs), joined(&times));
        if addrs.len() != times.len() {
            return Err(format!("{} servers, but {} times", addrs.len(), times.len()));
        }
        let statuses = value("upstream_status").map(|s| joined(&s)).filter(|s| s.len() == addrs.len());
        let mut attempts = Vec::new();
        for (i, (addr, time)) in addrs.into_iter().zip(times).enumerate() {
            let time = match time.as_str() {
                "-" => None,
                text => match text.parse::<f64>() {
                    Ok(time) if (0.0..1e6).contains(&time) => Some(time),
                    _ => return Err(format!("'{text}' is no time in seconds")),
                },
            };
            let status = statuses.as_ref().and_then(|s| s.get(i)?.parse().ok());
            // Without a usable server nginx logs the upstream's name.
            if addr.starts_with("unix:") || addr.contains(':') {
                attempts.push(Attempt { addr, time, status });
            }
        }
        Ok((!attempts.is_empty()).then_some(Entry { ended, attempts }))
    }

    /// How to look up what a line holds.
    fn values<'a>(&'a self, line: &'a str) -> Result<Values<'a>, String> {
        match self {
            Self::Given(parts, end) => {
                let found = given(parts, end, line)?;
                Ok(Box::new(move |name| found.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned())))
            }
            Self::Named if line.trim_start().starts_with('{') => {
                let object: Value = serde_json::from_str(line).map_err(|e| format!("no JSON: {e}"))?;
                Ok(Box::new(move |name| match object.get(name)? {
                    Value::String(text) => Some(text.clone()),
                    other => Some(other.to_string()),
                }))
            }
            Self::Named => Ok(Box::new(move |name| pair(line, name))),
        }
    }
}

/// Values by the text between them: each ends where the text before the next one begins.
fn given<'a>(parts: &'a [(String, String)], end: &str, line: &'a str) -> Result<Vec<(&'a str, &'a str)>, String> {
    let mut rest = line.trim_end_matches(['\r', '\n']);
    let mut found = Vec::with_capacity(parts.len());
    for (i, (before, name)) in parts.iter().enumerate() {
        rest = rest.strip_prefix(before.as_str()).ok_or_else(|| format!("'{before}' should stand before ${name}"))?;
        let after = parts.get(i + 1).map_or(end, |next| next.0.as_str());
        let length = match after {
            "" => rest.len(),
            _ => value_end(rest, after).ok_or_else(|| format!("'{after}' should stand after ${name}"))?,
        };
        found.push((name.as_str(), &rest[..length]));
        rest = &rest[length..];
    }
    Ok(found)
}

/// Where a value ends that `after` follows. A list of servers or times holds blanks itself: behind a comma, around a colon.
fn value_end(text: &str, after: &str) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find(after)?;
        let inside = after == " " && (text[..at].ends_with([',', ':']) && at > 1 || text[at..].starts_with(" : "));
        if !inside {
            return Some(at);
        }
        from = at + after.len();
    }
}

/// The value of `name=`, quoted or up to the next name.
fn pair(line: &str, name: &str) -> Option<String> {
    let key = format!("{name}=");
    let start =
        line.match_indices(&key).map(|(i, _)| i).find(|&i| i == 0 || line[..i].ends_with([' ', '\t', ',', ';']))?;
    let value = &line[start + key.len()..];
    if let Some(quoted) = value.strip_prefix('"') {
        return quoted.split('"').next().map(str::to_owned);
    }
    let mut end = value.len();
    for (at, _) in value.match_indices(' ') {
        let word = value[at + 1..].split(' ').next().unwrap_or("");
        if word.contains('=') {
            end = at;
            break;
        }
    }
    Some(value[..end].trim().to_owned())
}

/// "a, b : c" as a, b and c: attempts one after the other, and again after an internal redirect.
fn joined(text: &str) -> Vec<String> {
    text.replace(" : ", ", ").split(", ").map(|part| part.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(addr: &str, time: Option<f64>, status: Option<u16>) -> Attempt {
        Attempt { addr: addr.into(), time, status }
    }

    #[test]
    fn a_given_format_with_lists_between_blanks() {
        let format =
            Format::parse("$remote_addr [$msec] \"$request\" $upstream_addr $upstream_response_time $upstream_status")
                .unwrap();
        let line = "::1 [1700000000.500] \"GET /a b HTTP/1.1\" 10.0.0.1:80, 10.0.0.2:80 : 10.0.0.3:80 0.100, - : 0.300 502, 502 : 200";
        let entry = format.read(line).unwrap().unwrap();
        let expected = [
            attempt("10.0.0.1:80", Some(0.1), Some(502)),
            attempt("10.0.0.2:80", None, Some(502)),
            attempt("10.0.0.3:80", Some(0.3), Some(200)),
        ];
        assert_eq!(entry.attempts, expected);
        assert_eq!(entry.attempts.iter().map(Attempt::failed).collect::<Vec<_>>(), [true, true, false]);
        assert!((entry.began() - 1_700_000_000.1).abs() < 1e-6);
    }

    #[test]
    fn json_and_pairs_need_no_format() {
        let json = r#"{"msec":"1.5","upstream_addr":"unix:/run/a","upstream_response_time":"0.25"}"#;
        let pairs = "x=1 msec=1.5 upstream_addr=10.0.0.1:80, 10.0.0.2:80 upstream_response_time=\"0.1, 0.2\" y=2";
        assert_eq!(Format::Named.read(json).unwrap().unwrap().attempts, [attempt("unix:/run/a", Some(0.25), None)]);
        assert_eq!(Format::Named.read(pairs).unwrap().unwrap().attempts.len(), 2);
    }

    #[test]
    fn who_went_to_no_server_is_no_error_and_the_rest_is_named() {
        let format = Format::parse("$msec $upstream_addr $upstream_response_time").unwrap();
        assert_eq!(format.read("1.5 - -"), Ok(None));
        assert_eq!(format.read("1.5 backend 0.000"), Ok(None));
        for (line, word) in [
            ("x 10.0.0.1:80 0.1", "no time as $msec"),
            ("1.5 10.0.0.1:80, 10.0.0.2:80 0.1", "2 servers, but 1 times"),
            ("1.5 10.0.0.1:80 soon", "'soon' is no time"),
            ("1.5", "should stand after"),
        ] {
            let error = format.read(line).unwrap_err();
            assert!(error.contains(word), "{line}: {error}");
        }
        assert!(Format::parse("$msec $upstream_addr").unwrap_err().contains("$upstream_response_time is missing"));
        assert!(Format::parse("$msec$upstream_addr").unwrap_err().contains("cannot be found"));
    }
}
