//! A timer of nginx's event loop that does not keep a worker from leaving.
//!
//! Here because each of this module's timers must be like that, and nginx keeps the address of what it was given: so timers are
//! statics. Not here: what happens when they fire.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};

use nginx_sys::{ngx_add_timer, ngx_connection_t, ngx_cycle_t, ngx_del_timer, ngx_event_t, ngx_msec_t};

/// What nginx calls when it fires.
pub type Handler = unsafe extern "C" fn(*mut ngx_event_t);

/// See the module.
pub struct Timer {
    event: UnsafeCell<MaybeUninit<ngx_event_t>>,
    /// What `event.data` points to: nginx's debug log reads a descriptor from there.
    connection: UnsafeCell<MaybeUninit<ngx_connection_t>>,
    armed: AtomicBool,
}

// SAFETY: only nginx's event loop touches it, which is one thread of each process.
unsafe impl Sync for Timer {}

impl Timer {
    /// One that does nothing yet.
    pub const fn new() -> Self {
        Self {
            event: UnsafeCell::new(MaybeUninit::zeroed()),
            connection: UnsafeCell::new(MaybeUninit::zeroed()),
            armed: AtomicBool::new(false),
        }
    }

    /// Prepares it to call `handler`, with the log of `cycle`. To be called in a worker, while it does not run.
    pub fn arm(&self, cycle: *mut ngx_cycle_t, handler: Handler) {
        let (event, connection) =
            (self.event.get().cast::<ngx_event_t>(), self.connection.get().cast::<ngx_connection_t>());
        // SAFETY: zeroed nginx structures are valid; nobody else has them; the event is not armed here.
        unsafe {
            (*connection).fd = -1;
            (*event).data = connection.cast();
            (*event).handler = Some(handler);
            (*event).log = (*cycle).log;
            // An old worker must leave as soon as its requests have: this timer does not hold it.
            (*event).set_cancelable(1);
        }
        self.armed.store(true, Ordering::Relaxed);
    }

    /// Has it fire once in `pause` ms instead of whenever it would have; nothing unless it is armed.
    pub fn after(&self, pause: ngx_msec_t) {
        if self.armed.load(Ordering::Relaxed) {
            self.stop();
            // SAFETY: `arm` has filled the event in; the event module is initialised before http modules' init_process.
            unsafe { ngx_add_timer(self.event.get().cast(), pause) };
        }
    }

    /// Stops it for good.
    pub fn disarm(&self) {
        if self.armed.swap(false, Ordering::Relaxed) {
            self.stop();
        }
    }

    fn stop(&self) {
        let event = self.event.get().cast::<ngx_event_t>();
        // SAFETY: armed before, so initialised; deleted only while it is in the tree.
        unsafe {
            if (*event).timer_set() != 0 {
                ngx_del_timer(event);
            }
        }
    }
}
