//! The body of a PATCH: one flat JSON object with any of `weight`, `state` and `max_conns`.
//!
//! Strict: unknown and repeated fields, arrays, fractions, numbers as strings and anything after the object are refused, by
//! name. A value of `null` asks for the configured one.

use core::fmt;

use labor_core::control::{MOST_WEIGHT, Patch, State};
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::Value;

/// Largest body, bytes: ten times what the longest sensible one takes.
pub const LIMIT: usize = 4096;

/// Deepest nesting that is read at all; a correct body is one object of plain values.
const DEPTH: usize = 8;

/// What is wrong with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// Nothing there.
    Empty,
    /// Longer than [`LIMIT`].
    TooLong,
    /// No JSON, with the parser's words.
    Json(String),
    /// JSON of another form.
    Form(String),
    /// A value out of its range: which field, and what it may be.
    Value(Field),
}

/// A field of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `weight`.
    Weight,
    /// `state`.
    State,
    /// `max_conns`.
    MaxConns,
}

impl Field {
    const ALL: [Self; 3] = [Self::Weight, Self::State, Self::MaxConns];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Weight => "weight",
            Self::State => "state",
            Self::MaxConns => "max_conns",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("empty request body"),
            Self::TooLong => write!(f, "request body is longer than {LIMIT} bytes"),
            Self::Json(reason) => write!(f, "invalid JSON: {reason}"),
            Self::Form(reason) => f.write_str(reason),
            Self::Value(Field::Weight) => {
                write!(f, "invalid \"weight\": it must be a whole number from 0 to {MOST_WEIGHT}, or null")
            }
            Self::Value(Field::State) => {
                f.write_str("invalid \"state\": it must be \"up\", \"drain\" or \"down\", or null")
            }
            Self::Value(Field::MaxConns) => {
                write!(f, "invalid \"max_conns\": it must be a whole number from 0 to {}, or null", u32::MAX)
            }
        }
    }
}

/// Reads a body.
pub fn parse(text: &[u8]) -> Result<Patch, Error> {
    if text.len() > LIMIT {
        return Err(Error::TooLong);
    }
    match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => return Err(Error::Empty),
        Some(b'{') => {}
        // Any other JSON is told apart from what is no JSON at all.
        Some(_) => {
            return Err(match serde_json::from_slice::<Value>(text) {
                Ok(_) => Error::Form("the body must be a JSON object".into()),
                Err(error) => Error::Json(error.to_string()),
            });
        }
    }
    if is_deep(text) {
        return Err(Error::Json(format!("nested more than {DEPTH} levels deep")));
    }
    let fields: Fields = serde_json::from_slice(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Error::Form(error.to_string()),
        _ => Error::Json(error.to_string()),
    })?;
    fields.patch()
}

/// Whether brackets outside of strings nest too deeply.
fn is_deep(text: &[u8]) -> bool {
    let (mut depth, mut quoted, mut escaped) = (0_usize, false, false);
    for byte in text {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => depth += 1,
            b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > DEPTH {
            return true;
        }
    }
    false
}

/// The fields as they stand there.
#[derive(Default)]
struct Fields([Option<Value>; 3]);

impl Fields {
    fn get(&self, field: Field) -> Option<&Value> {
        self.0.get(field as usize)?.as_ref()
    }

    fn patch(&self) -> Result<Patch, Error> {
        if self.0.iter().all(Option::is_none) {
            return Err(Error::Form(
                "the body names nothing to change: expected \"weight\", \"state\" or \"max_conns\"".into(),
            ));
        }
        Ok(Patch {
            weight: self.number(Field::Weight, |n| u16::try_from(n).ok())?,
            state: self.value(Field::State, |value| State::named(value.as_str()?))?,
            max_conns: self.number(Field::MaxConns, |n| u32::try_from(n).ok())?,
        })
    }

    fn number<T>(&self, field: Field, convert: impl Fn(u64) -> Option<T>) -> Result<Option<Option<T>>, Error> {
        self.value(field, |value| value.as_u64().and_then(&convert))
    }

    /// Nothing, the configured value, or what `read` makes of it.
    fn value<T>(&self, field: Field, read: impl Fn(&Value) -> Option<T>) -> Result<Option<Option<T>>, Error> {
        match self.get(field) {
            None => Ok(None),
            Some(Value::Null) => Ok(Some(None)),
            Some(value) => read(value).map(|read| Some(Some(read))).ok_or(Error::Value(field)),
        }
    }
}

impl<'de> de::Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Fields::default();
                while let Some(name) = map.next_key::<String>()? {
                    let known = Field::ALL.into_iter().find(|field| field.name() == name);
                    let Some(place) = known.and_then(|field| fields.0.get_mut(field as usize)) else {
                        return Err(de::Error::custom(format_args!(
                            "unknown field \"{}\", expected \"weight\", \"state\" or \"max_conns\"",
                            shortened(&name)
                        )));
                    };
                    if place.is_some() {
                        return Err(de::Error::custom(format_args!("field \"{name}\" stands there twice")));
                    }
                    *place = Some(map.next_value()?);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// A name as far as an answer repeats it: a message is for people.
fn shortened(name: &str) -> String {
    const MOST: usize = 64;
    match name.char_indices().nth(MOST) {
        None => name.to_owned(),
        Some((end, _)) => format!("{}…", name.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> String {
        match parse(text.as_bytes()) {
            Err(Error::Form(reason)) => reason,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn every_field_alone_and_together() {
        let patch = parse(br#" {"weight":5,"state":"drain","max_conns":100} "#).unwrap();
        assert_eq!(patch, Patch { weight: Some(Some(5)), state: Some(Some(State::Drain)), max_conns: Some(Some(100)) });
        assert_eq!(parse(br#"{"weight":null}"#).unwrap(), Patch { weight: Some(None), ..Patch::default() });
        assert_eq!(parse(br#"{"max_conns":0}"#).unwrap().max_conns, Some(Some(0)));
    }

    #[test]
    fn limits_are_exact() {
        for good in ["0", "65535"] {
            assert!(parse(format!("{{\"weight\":{good}}}").as_bytes()).is_ok());
        }
        for bad in ["65536", "-1", "-0", "1.0", "1e1", "\"1\"", "true", "[]", "{}", "18446744073709551616"] {
            assert_eq!(parse(format!("{{\"weight\":{bad}}}").as_bytes()), Err(Error::Value(Field::Weight)), "{bad}");
        }
        assert!(parse(br#"{"max_conns":4294967295}"#).is_ok());
        assert_eq!(parse(br#"{"max_conns":4294967296}"#), Err(Error::Value(Field::MaxConns)));
        for bad in ["\"Up\"", "\"\"", "1", "\"up \"", "\"down\\u0000\""] {
            assert_eq!(parse(format!("{{\"state\":{bad}}}").as_bytes()), Err(Error::Value(Field::State)), "{bad}");
        }
    }

    #[test]
    fn unknown_and_repeated_fields_are_refused_by_name() {
        assert!(form(r#"{"weight":1,"wieght":2}"#).contains("\"wieght\""));
        assert!(form(r#"{"Weight":1}"#).contains("\"Weight\""));
        assert!(form(r#"{"weight":1,"weight":1}"#).contains("\"weight\" stands there twice"));
        assert!(form(r#"{"weight":1,"we\u0069ght":1}"#).contains("twice"));
        assert!(form(&format!("{{\"{}\":1}}", "x".repeat(999))).len() < 200);
    }

    #[test]
    fn other_forms_are_refused() {
        for text in [r"[]", r#"[5,"up",3]"#, "5", "null", "\"weight\""] {
            assert!(form(text).contains("object"), "{text}");
        }
        assert!(form("{}").contains("nothing to change"));
        assert_eq!(parse(b" \n\t "), Err(Error::Empty));
        assert_eq!(parse(&[b' '; LIMIT + 1]), Err(Error::TooLong));
    }

    #[test]
    fn what_is_no_json_is_called_so() {
        let deep = format!("{{\"weight\":{}", "[".repeat(4000));
        for text in [
            "{",
            "{\"weight\":1",
            "{\"weight\":1}x",
            "{\"weight\":1}{}",
            "{weight:1}",
            "{\"weight\":1,}",
            "\u{feff}{}",
            &deep,
        ] {
            assert!(matches!(parse(text.as_bytes()), Err(Error::Json(_))), "{text:.20}");
        }
        assert!(matches!(parse(b"{\"\xff\":1}"), Err(Error::Json(_))));
    }

    #[test]
    fn depth_is_counted_outside_of_strings() {
        assert!(!is_deep(br#"{"a":"[[[[[[[[[[[[[[[\"[[[["}"#));
        assert!(is_deep(br#"{"a":[[[[[[[[[]]]]]]]]]}"#));
    }
}
