# O40: a server that failed and was counted out for hours (fail_timeout=10000s) is back within a minute of its recovery, by trials
# on our own schedule. POST requests only.
# fails with: least_conn in place of labor (A has nothing before 10000 s are over).
use strict;
use warnings;
use Labor::Trials;

recovers_by_trials('POST');
