;;; emacs_check.el --- diagnostics, hover, run and lowered code in a real Emacs  -*- lexical-binding: t -*-
;; Usage: SERVER_CMD="tile-lsp serve" TILE_LSP_EL=editors/emacs/tile-lsp.el emacs -q --batch -l emacs_check.el FILE
;; Exit status: 0 when every check passed.

(require 'package)
(package-initialize)
(load (getenv "TILE_LSP_EL"))
(setq tile-lsp-command (split-string (getenv "SERVER_CMD") " ")
      tile-lsp-options '(:runTarget "cpu")
      eglot-sync-connect 60
      eglot-connect-timeout 60
      eglot-send-changes-idle-time 0.1)

(defun check-wait (what test)
  "Wait until TEST returns something; WHAT it is is told when it never does."
  (let ((end (+ (float-time) 60)) found)
    (while (and (not (setq found (funcall test))) (< (float-time) end))
      (accept-process-output nil 0.1))
    (or found (error "timed out waiting for %s" what))))

(defun check-diagnostics (count)
  "Wait until flymake has COUNT diagnostics."
  (check-wait (format "%d diagnostics" count)
              (lambda ()
                (run-hooks 'post-command-hook)
                (eglot--signal-textDocument/didChange)
                (flymake-start)
                (and (= (length (flymake-diagnostics)) count) (list t)))))

(defun check-hover (text)
  "The server's hover at TEXT."
  (goto-char (point-min))
  (search-forward text)
  (backward-char 1)
  (let ((reply (jsonrpc-request (eglot--current-server-or-lose) :textDocument/hover (eglot--TextDocumentPositionParams) :timeout 60)))
    (eglot--hover-info (plist-get reply :contents) (plist-get reply :range))))

(defun check ()
  (let ((file (pop command-line-args-left)))
    (message "Emacs %s" emacs-version)
    (find-file file)
    (python-mode)
    (apply #'eglot (eglot--guess-contact))
    (check-wait "the server" #'eglot-current-server)
    (flymake-mode 1)
    (goto-char (point-min))
    (search-forward "T.clear")
    (replace-match "T.cleer" t)
    (check-diagnostics 1)
    (let ((text (flymake-diagnostic-text (car (flymake-diagnostics)))))
      (unless (string-match-p "did you mean T.clear" text) (error "diagnostic: %s" text))
      (message "diagnostic: %s" text))
    (goto-char (point-min))
    (search-forward "T.cleer")
    (replace-match "T.clear" t)
    (check-diagnostics 0)
    (message "diagnostic gone after the repair")
    (let ((text (check-wait "the CUDA in the hover" (lambda () (let ((h (check-hover "T.gemm"))) (and (string-match-p "CUDA" h) h))))))
      (unless (string-match-p "lowers to" text) (error "hover: %s" text))
      (message "hover: %s" (car (split-string (substring text (string-match "lowers to" text)) "\n"))))
    (goto-char (point-min))
    (search-forward "def matmul")
    (let ((result (tile-lsp-run)))
      (unless (eq (plist-get result :ok) t) (error "run: %S" result)))
    (with-current-buffer (tile-lsp-lowered "cuda")
      (unless (string-match-p "__global__" (buffer-string)) (error "lowered: %s" (buffer-string)))
      (message "lowered: %s" (buffer-name)))
    (eglot-shutdown (eglot-current-server))
    (message "PASS")))

(condition-case err
    (check)
  (error (message "FAIL %S" err) (kill-emacs 1)))
(kill-emacs 0)
