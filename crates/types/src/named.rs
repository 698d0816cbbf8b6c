//! Enums whose variants have names.

/// Declares an enum whose variants have names: in configuration, metrics, logs or records. It gets `ALL`,
/// every variant in order, and `as_str`, the name.
///
/// ```
/// tollgate_types::named! {
///     /// The side of a coin.
///     #[derive(Clone, Copy, Debug, PartialEq)]
///     pub enum Side {
///         /// The obverse.
///         Heads = "heads",
///         /// The reverse.
///         Tails = "tails",
///     }
/// }
/// assert_eq!(Side::ALL.map(Side::as_str), ["heads", "tails"]);
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$meta:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)*
        }
    ) => {
        $(#[$meta])*
        $visibility enum $name {
            $($(#[$variant_meta])* $variant,)*
        }

        impl $name {
            /// Every variant, in order.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$variant),*];

            /// The name.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}
