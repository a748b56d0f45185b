//! Small growing buffers, lent by the shard: heads, and bytes on their way out.
//!
//! An exchange needs a request head, a response head and an output buffer for the few microseconds
//! or milliseconds that it lasts; an idle connection needs none. They keep their capacity while
//! they are passed around, so that a warm shard does not allocate.

#![allow(clippy::vec_box, reason = "the box is what is lent: moving it moves a pointer")]

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::thread::LocalKey;

use spillgate_wire::http1::{RequestHead, ResponseIndex};

/// Free things of one kind that a shard keeps.
const KEPT_MAX: usize = 1024;

/// Capacity above which a buffer is given back to the allocator instead.
const CAPACITY_MAX: usize = 16 * 1024;

/// Something that a shard keeps and lends.
pub trait Lendable: Sized + 'static {
    /// A new one.
    fn make() -> Self;
    /// Empty it; false: it has grown too large to keep.
    fn clear(&mut self) -> bool;
    /// Where the free ones are.
    fn free() -> &'static LocalKey<RefCell<Vec<Box<Self>>>>;
}

thread_local! {
    static REQUEST_HEADS: RefCell<Vec<Box<RequestHead>>> = const { RefCell::new(Vec::new()) };
    static RESPONSE_INDEXES: RefCell<Vec<Box<ResponseIndex>>> = const { RefCell::new(Vec::new()) };
    static OUTPUTS: RefCell<Vec<Box<Vec<u8>>>> = const { RefCell::new(Vec::new()) };
}

impl Lendable for RequestHead {
    fn make() -> Self {
        RequestHead::new()
    }
    fn clear(&mut self) -> bool {
        RequestHead::clear(self);
        true
    }
    fn free() -> &'static LocalKey<RefCell<Vec<Box<Self>>>> {
        &REQUEST_HEADS
    }
}

impl Lendable for ResponseIndex {
    fn make() -> Self {
        ResponseIndex::new()
    }
    fn clear(&mut self) -> bool {
        ResponseIndex::clear(self);
        true
    }
    fn free() -> &'static LocalKey<RefCell<Vec<Box<Self>>>> {
        &RESPONSE_INDEXES
    }
}

impl Lendable for Vec<u8> {
    fn make() -> Self {
        Vec::with_capacity(1024)
    }
    fn clear(&mut self) -> bool {
        Vec::clear(self);
        self.capacity() <= CAPACITY_MAX
    }
    fn free() -> &'static LocalKey<RefCell<Vec<Box<Self>>>> {
        &OUTPUTS
    }
}

/// Something lent by this thread; goes back when dropped.
#[derive(Debug)]
pub struct Lent<T: Lendable>(Option<Box<T>>);

impl<T: Lendable> Lent<T> {
    /// Take one; it is empty.
    pub fn take() -> Lent<T> {
        Lent(Some(T::free().with_borrow_mut(Vec::pop).unwrap_or_else(|| Box::new(T::make()))))
    }
}

/// Bytes on their way out: a buffer is taken with the first of them and given back with the last,
/// so that who waits has none, and the one that is warm serves all.
#[derive(Debug, Default)]
pub struct Output(Option<Lent<Vec<u8>>>);

impl Output {
    /// The buffer to append to.
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.0.get_or_insert_with(Lent::take)
    }

    /// Give the buffer back, with what is in it.
    pub fn clear(&mut self) {
        self.0 = None;
    }
}

impl Deref for Output {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |buffer| buffer.as_slice())
    }
}

impl<T: Lendable> Deref for Lent<T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_ref().expect("taken only by drop")
    }
}

impl<T: Lendable> DerefMut for Lent<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("taken only by drop")
    }
}

impl<T: Lendable> Drop for Lent<T> {
    fn drop(&mut self) {
        let Some(mut lent) = self.0.take() else { return };
        if !lent.clear() {
            return;
        }
        // Fails only while the thread ends: then the allocator takes it.
        let _ = T::free().try_with(|free| {
            let mut free = free.borrow_mut();
            if free.len() < KEPT_MAX {
                free.push(lent);
            }
        });
    }
}
