# A mail was moved, copied or saved into Junk: it is spam. docs/mail.md
require ["vnd.dovecot.pipe", "copy", "imapsieve", "environment", "variables"];
if environment :matches "imap.user" "*" { set "user" "${1}"; }
pipe :copy "prefsvm-learn" ["spam", "${user}"];
