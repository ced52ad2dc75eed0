//! What the two locations answer, as data or as an error with advice: `labor_status` and `labor_api`.

use std::io;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::error::{Error, Kind, Result};
use crate::http::{self, Answer};
use crate::model::{Named, Refusal, Server, Status, Upstream, VERSION};
use crate::target::{Target, Transport};
use crate::text::printable;

/// One of the two locations.
#[derive(Clone)]
pub struct Client {
    /// Its address.
    pub target: Target,
    /// For one whole exchange.
    pub time: Duration,
}

impl Client {
    /// The status, of one upstream where one is named: as it was sent, and decoded.
    ///
    /// # Errors
    /// No connection, a refusal, something else than a status of this version.
    pub fn status(&self, upstream: Option<&str>) -> Result<(String, Status)> {
        let target = upstream.map_or_else(|| self.target.clone(), |name| self.target.with("upstream", name));
        let answer = self.ask(&target, "GET", None)?;
        let text = self.text(&answer, "labor_status")?;
        let status: Status = self.decode(&text, "labor_status")?;
        if status.version != VERSION {
            let message = format!("{} answers with version {} of the status", self.target, status.version);
            return Err(Error::new(Kind::Answer, message)
                .hint(format!("this labor-ctl reads version {VERSION}: use the one that came with the module")));
        }
        Ok((text, status))
    }

    /// All upstreams of the API.
    ///
    /// # Errors
    /// As for `status`.
    pub fn upstreams(&self) -> Result<Named<Upstream>> {
        let answer = self.ask(&self.target.below(&["upstreams"]), "GET", None)?;
        self.decode(&self.text(&answer, "labor_api")?, "labor_api")
    }

    /// A request about one server; the answer as it was sent, and decoded.
    ///
    /// # Errors
    /// As for `status`.
    pub fn server(&self, method: &str, segments: &[&str], body: Option<&str>) -> Result<(String, Server)> {
        let answer = self.ask(&self.target.below(segments), method, body)?;
        let text = self.text(&answer, "labor_api")?;
        let server = self.decode(&text, "labor_api")?;
        Ok((text, server))
    }

    /// A request that is answered by nothing but success.
    ///
    /// # Errors
    /// As for `status`.
    pub fn delete(&self, segments: &[&str]) -> Result<()> {
        self.ask(&self.target.below(segments), "DELETE", None).map(|_| ())
    }

    fn ask(&self, target: &Target, method: &str, body: Option<&str>) -> Result<Answer> {
        let answer = http::request(target, method, body, self.time).map_err(|error| self.unreached(&error))?;
        match answer.status {
            200..=299 => Ok(answer),
            _ => Err(refused(target, method, &answer)),
        }
    }

    fn unreached(&self, error: &io::Error) -> Error {
        let target = &self.target;
        match error.kind() {
            io::ErrorKind::InvalidData => Error::new(Kind::Connect, format!("{target}: {error}")),
            io::ErrorKind::TimedOut => {
                Error::new(Kind::Connect, format!("{target} gave no answer within {} s", self.time.as_secs_f64()))
                    .hint("--timeout gives it more time")
            }
            kind => {
                let failure = Error::new(Kind::Connect, format!("cannot connect to {target}: {error}"));
                match (kind, &target.transport) {
                    (io::ErrorKind::ConnectionRefused, _) => failure.hint("does nginx run, and does it listen there?"),
                    (io::ErrorKind::NotFound, Transport::Unix(_)) => {
                        failure.hint("there is no such socket: does nginx run, and does a server listen on it?")
                    }
                    (io::ErrorKind::PermissionDenied, _) => {
                        failure.hint("only users who may write to the socket and enter its directory can connect")
                    }
                    _ => failure,
                }
            }
        }
    }

    /// The body, if it is JSON.
    fn text(&self, answer: &Answer, directive: &str) -> Result<String> {
        let kind = answer.header("Content-Type");
        let media = kind.split(';').next().unwrap_or_default().trim();
        if !media.eq_ignore_ascii_case("application/json") {
            let shown = if media.is_empty() { "no type".into() } else { printable(media) };
            let failure = Error::new(Kind::Answer, format!("{} answers with {shown}, not with JSON", self.target));
            return Err(match directive {
                "labor_status" => failure.hint("the URL must be that of a labor_status location; one that is set to prometheus answers JSON only at a path below it that ends in .json"),
                _ => failure.hint(format!("the URL must be that of a {directive} location")),
            });
        }
        String::from_utf8(answer.body.clone())
            .map_err(|_| Error::new(Kind::Answer, format!("{} answers with JSON that is no UTF-8", self.target)))
    }

    fn decode<T: DeserializeOwned>(&self, text: &str, directive: &str) -> Result<T> {
        serde_json::from_str(text).map_err(|error| {
            let message =
                format!("{} answers with JSON that is not labor's: {}", self.target, printable(&error.to_string()));
            Error::new(Kind::Answer, message).hint(format!("the URL must be that of a {directive} location"))
        })
    }
}

/// A status that is no success, in the words of `labor_api` where it sent some.
fn refused(target: &Target, method: &str, answer: &Answer) -> Error {
    let refusal: Option<Refusal> = serde_json::from_slice(&answer.body).ok();
    let said = refusal.as_ref().map_or_else(String::new, |r| format!(": {}", printable(&r.error.text)));
    let code = refusal.as_ref().map_or("", |r| &r.error.code);
    let kind = match code {
        "UpstreamNotFound" | "UpstreamServerNotFound" => Kind::Unknown,
        _ => Kind::Refused,
    };
    let id = refusal.as_ref().map(|r| printable(&r.request_id)).filter(|id| !id.is_empty());
    let logged = id.map_or_else(String::new, |id| format!(" (request {id})"));
    let failure = Error::new(kind, format!("{target} answered {} to {method}{said}{logged}", answer.status));
    match (answer.status, code) {
        (_, "UpstreamNotFound" | "UpstreamServerNotFound") => failure.hint("labor-ctl status lists all"),
        (405, _) if method != "GET" => {
            failure.hint("that location only reads: `labor_api write=on;` lets it change things")
        }
        (405, _) => failure.hint("is that the URL of labor_status or labor_api?"),
        (401, _) => {
            failure.hint("it asks for a user: http://USER:PASSWORD@HOST/…, best kept in LABOR_API or LABOR_STATUS")
        }
        (403, _) => failure.hint("allow and deny of that location, or its auth_request, keep this host out"),
        (404, _) => failure.hint("is the path right? It is what stands behind `location`"),
        (301..=308, _) => {
            failure.hint(format!("it points to {}; redirects are not followed", printable(answer.header("Location"))))
        }
        (500..=599, _) if code != "Reloading" => failure.hint("nginx's error log says more"),
        _ => failure,
    }
}
