//! What a plugin author needs: the filter trait, the request context, verdicts
