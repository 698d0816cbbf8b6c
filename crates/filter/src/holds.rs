//! What filters hold on behalf of a request until it is over.

use std::any::Any;

/// Things that are held for a request: a place among the concurrent ones, tokens of a balance.
///
/// Whoever knows the type may take a thing out; what is still there when the request is over
/// is dropped with it, so a thing's `Drop` must give back what it stands for.
#[derive(Default)]
pub struct Holds(Vec<Box<dyn Any + Send + Sync>>);

impl Holds {
    /// Holds a thing.
    pub fn put<T: Any + Send + Sync>(&mut self, thing: T) {
        self.put_boxed(Box::new(thing));
    }

    /// Holds a thing that is boxed already.
    pub fn put_boxed(&mut self, thing: Box<dyn Any + Send + Sync>) {
        self.0.push(thing);
    }

    /// Takes out the first thing of a type.
    pub fn take<T: Any>(&mut self) -> Option<Box<T>> {
        let place = self.0.iter().position(|thing| thing.is::<T>())?;
        let thing: Box<dyn Any> = self.0.swap_remove(place);
        thing.downcast().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::Holds;
    use std::sync::Arc;

    #[test]
    fn a_thing_is_taken_by_its_type_once() {
        let mut holds = Holds::default();
        holds.put(1_u8);
        holds.put("text");
        assert_eq!(holds.take::<&str>().as_deref(), Some(&"text"));
        assert_eq!(holds.take::<&str>(), None);
        assert_eq!(holds.take::<u8>().as_deref(), Some(&1));
    }

    #[test]
    fn what_nobody_takes_goes_with_the_request() {
        let held = Arc::new(());
        let mut holds = Holds::default();
        holds.put(Arc::clone(&held));
        drop(holds);
        assert_eq!(Arc::strong_count(&held), 1);
    }
}
