# A mail was moved or copied out of Junk: it is none, unless it went to where people throw mails away. docs/mail.md
require ["vnd.dovecot.pipe", "copy", "imapsieve", "environment", "variables"];
if environment :matches "imap.mailbox" "*" { set "mailbox" "${1}"; }
if string :is "${mailbox}" ["Trash", "Deleted Items", "Deleted Messages"] { stop; }
if environment :matches "imap.user" "*" { set "user" "${1}"; }
pipe :copy "prefsvm-learn" ["ham", "${user}"];
