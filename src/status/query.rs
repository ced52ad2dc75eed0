//! What a client asks for: `?upstream=NAME`, `?fields=a,b`, `?history=1`, URL-encoded. Unknown arguments are ignored.
//!
//! Parsing only; what is left out is decided where it would be written.

use std::borrow::Cow;

use super::text::text;

/// What of the status is wanted.
#[derive(Clone, Debug, Default)]
pub struct Query {
    upstream: Option<Vec<u8>>,
    /// Sorted: every server is asked for every field, and a request may name thousands.
    fields: Option<Vec<String>>,
    /// The last quarter of an hour as well.
    pub history: bool,
}

impl Query {
    /// Reads the arguments of a request.
    pub fn parse(args: &[u8]) -> Self {
        let mut query = Self::default();
        for argument in args.split(|b| *b == b'&') {
            let mut parts = argument.splitn(2, |b| *b == b'=');
            let (name, value) = (parts.next().unwrap_or_default(), decode(parts.next().unwrap_or_default()));
            match name {
                b"upstream" => query.upstream = Some(value.into_owned()),
                b"fields" => {
                    let names = value.split(|b| *b == b',').filter(|name| !name.is_empty());
                    let mut names: Vec<String> = names.map(|name| text(name).into_owned()).collect();
                    names.sort_unstable();
                    query.fields = Some(names);
                }
                b"history" => query.history = matches!(&*value, b"1" | b"on" | b"yes" | b"true"),
                _ => {}
            }
        }
        query
    }

    /// Whether the upstream of this name is wanted. The name as the answer shows it is one, too.
    pub fn has_upstream(&self, name: &[u8]) -> bool {
        self.upstream.as_ref().is_none_or(|wanted| wanted == name || wanted == text(name).as_bytes())
    }

    /// Whether the field of this name is wanted.
    pub fn has_field(&self, name: &str) -> bool {
        self.fields.as_ref().is_none_or(|wanted| wanted.binary_search_by(|field| field.as_str().cmp(name)).is_ok())
    }
}

/// Undoes the encoding of a URL's query: `%41` is A, `+` is a blank. What is no encoding stays as it is.
fn decode(value: &[u8]) -> Cow<'_, [u8]> {
    if !value.iter().any(|b| matches!(b, b'%' | b'+')) {
        return Cow::Borrowed(value);
    }
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match (*first, after) {
            (b'%', [high, low, beyond @ ..]) => match digit(*high).zip(digit(*low)) {
                Some((high, low)) => {
                    out.push(high << 4 | low);
                    rest = beyond;
                }
                None => out.push(b'%'),
            },
            (b'+', _) => out.push(b' '),
            (other, _) => out.push(other),
        }
    }
    Cow::Owned(out)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok())
}
