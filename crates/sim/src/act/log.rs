//! `labor-sim --from`.

use clap::Args;

/// a
#[derive(Args)]
pub struct Options {
    /// x
    #[arg(long)]
    from: Vec<String>,
}

/// b
pub fn from_log(_: &Options) -> Result<(), String> {
    Ok(())
}
