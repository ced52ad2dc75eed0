//! Where a server listens: accepting, closing, blocking and opening again on the same address.
//!
//! A closed server keeps its port bound without listening, so that connections are refused and nobody else takes the port.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::connection;
use super::fastcgi::Fastcgi;
use super::grpc;
use super::http::Http;
use super::memcached::Memcached;
use super::scgi::Scgi;
use super::server::{Server, bump};
use super::spec::Protocol;
use super::uwsgi::Uwsgi;
use crate::clock::now;
use crate::net::{Endpoint, Listener, Reserved, Stream};

/// A server at its address.
pub struct Site {
    /// The server.
    pub server: Rc<Server>,
    /// Its address, with the port that was chosen.
    pub address: Endpoint,
    state: RefCell<State>,
}

enum State {
    Open(JoinHandle<()>),
    Closed(Reserved),
    /// The queue of connections is full and nobody accepts.
    Blocked(Listener, Stream),
    /// Between the two; stays so only after an error of the system.
    Lost,
}

impl Site {
    /// Takes the address and starts to accept.
    pub fn start(server: Rc<Server>, listen: &Endpoint) -> Result<Self> {
        let (reserved, address) = Reserved::bind(listen).with_context(|| format!("bind {listen}"))?;
        let site = Self { server, address, state: RefCell::new(State::Closed(reserved)) };
        site.open()?;
        Ok(site)
    }

    /// Listens again; nothing to do when it does.
    pub fn open(&self) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let reserved = match std::mem::replace(&mut *state, State::Lost) {
            State::Closed(reserved) => reserved,
            State::Lost => self.reserve()?,
            State::Blocked(listener, filler) => {
                drop((listener, filler));
                self.reserve()?
            }
            open @ State::Open(_) => {
                *state = open;
                return Ok(());
            }
        };
        let listener = reserved.listen().with_context(|| format!("listen {}", self.address))?;
        *state = State::Open(tokio::task::spawn_local(accept(self.server.clone(), listener)));
        Ok(())
    }

    /// Stops listening and, unless `keep`, ends the open connections, as when the process dies.
    pub async fn close(&self, keep: bool) -> Result<()> {
        let reserved = self.stop().await?;
        self.state.replace(State::Closed(reserved));
        if !keep {
            self.server.drop_connections();
        }
        Ok(())
    }

    /// Ends the open connections and lets new ones hang, as when the host has left the network.
    pub async fn block(&self) -> Result<()> {
        let (listener, filler) = self.stop().await?.block(&self.address).await?;
        self.state.replace(State::Blocked(listener, filler));
        self.server.drop_connections();
        Ok(())
    }

    /// Gives up listening, whatever the state, and holds the address.
    async fn stop(&self) -> Result<Reserved> {
        match self.state.replace(State::Lost) {
            State::Closed(reserved) => return Ok(reserved),
            State::Open(task) => {
                task.abort();
                // The listener lives in the task: a second socket cannot be bound before it is gone.
                let _ = task.await;
            }
            State::Blocked(listener, filler) => drop((listener, filler)),
            State::Lost => {}
        }
        self.reserve()
    }

    /// The counters of the server, its address and whether it listens.
    pub fn stats(&self) -> Value {
        let mut stats = self.server.stats();
        stats["address"] = json!(self.address.to_string());
        stats["listening"] = match *self.state.borrow() {
            State::Open(_) => json!("open"),
            State::Blocked(..) => json!("blocked"),
            State::Closed(_) | State::Lost => json!("closed"),
        };
        stats
    }

    fn reserve(&self) -> Result<Reserved> {
        Ok(Reserved::bind(&self.address).with_context(|| format!("bind {}", self.address))?.0)
    }
}

async fn accept(server: Rc<Server>, listener: Listener) {
    loop {
        match listener.accept().await {
            Ok(stream) => {
                bump(&server.counters.connections);
                let task = tokio::task::spawn_local(connection(server.clone(), stream));
                server.register(task.abort_handle());
            }
            Err(error) => pause(&error).await,
        }
    }
}

/// A client that left before it was accepted costs nothing; when descriptors run out, a pause lets some come back.
async fn pause(error: &io::Error) {
    if error.kind() != io::ErrorKind::ConnectionAborted {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn connection(server: Rc<Server>, stream: Stream) {
    let delay = server.behaviour().accept_delay;
    server.timer.until(now() + delay).await;
    match server.protocol {
        Protocol::Http => connection::serve(server, stream, Http::default()).await,
        Protocol::Fastcgi => connection::serve(server, stream, Fastcgi::default()).await,
        Protocol::Uwsgi => connection::serve(server, stream, Uwsgi::default()).await,
        Protocol::Scgi => connection::serve(server, stream, Scgi::default()).await,
        Protocol::Memcached => connection::serve(server, stream, Memcached::default()).await,
        Protocol::Grpc => grpc::serve(server, stream).await,
    }
}
