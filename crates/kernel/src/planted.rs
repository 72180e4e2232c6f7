//! Bugs that tests plant in a role, to see whether they are noticed.

/// Defines `plant` and `is` for the enum `Planted` of a crate whose feature `planted` makes it possible: in a real build no bug ever is.
#[macro_export]
macro_rules! planted {
    () => {
        #[cfg(feature = "planted")]
        thread_local! {
            static PLANTED: std::cell::Cell<Option<Planted>> = const { std::cell::Cell::new(None) };
        }

        /// Plants a bug for everything that runs on this thread.
        #[cfg(feature = "planted")]
        pub fn plant(bug: Option<Planted>) {
            PLANTED.with(|planted| planted.set(bug));
        }

        /// Whether this rule is removed.
        #[cfg(feature = "planted")]
        pub fn is(bug: Planted) -> bool {
            PLANTED.with(|planted| planted.get() == Some(bug))
        }

        /// Whether this rule is removed: never in a real build.
        #[cfg(not(feature = "planted"))]
        pub const fn is(_: Planted) -> bool {
            false
        }
    };
}
