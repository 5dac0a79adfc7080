;;; tile-lsp.el --- TileLang kernels in Emacs through eglot  -*- lexical-binding: t -*-

;; `tile-lsp' must be on the path: pip install 'tilec[compile,run]'.
;;   (load "/path/to/editors/emacs/tile-lsp.el")
;;   (add-hook 'python-mode-hook #'eglot-ensure)
;; Diagnostics, hovers (eldoc), completion, signatures, definition, references, rename and quick fixes are eglot's own.
;; M-x tile-lsp-run runs the kernel at point, M-x tile-lsp-lowered shows its CUDA beside the source.

;;; Code:

(require 'eglot)

(defgroup tile-lsp nil "TileLang kernels." :group 'languages)

(defcustom tile-lsp-command '("tile-lsp" "serve")
  "The command that starts the server."
  :type '(repeat string))

(defcustom tile-lsp-options nil
  "Settings as a plist, such as (:runTarget \"cpu\")."
  :type 'plist)

(defun tile-lsp--contact (&rest _)
  "The server with its settings, as eglot wants them."
  (append tile-lsp-command (list :initializationOptions (append tile-lsp-options '(:virtualDocuments t)))))

(add-to-list 'eglot-server-programs '(python-mode . tile-lsp--contact))

(defun tile-lsp--execute (command &optional more)
  "Execute COMMAND on the kernel at point with the arguments MORE besides."
  (let ((argument (append (list :uri (eglot--path-to-uri (buffer-file-name)) :line (line-number-at-pos)) more)))
    (jsonrpc-request (eglot--current-server-or-lose) :workspace/executeCommand
                     (list :command command :arguments (vector argument)) :timeout 300)))

(defun tile-lsp-run ()
  "Run the kernel at point; the result is shown in the echo area."
  (interactive)
  (let ((result (tile-lsp--execute "tile-lsp.run")))
    (message "%s" (cond ((null result) "tile-lsp: the run was cancelled")
                        ((eq (plist-get result :ok) t)
                         (format "✓ %s: max err %g, %g ms on %s" (plist-get result :instance) (or (plist-get result :max_abs_err) 0)
                                 (plist-get (plist-get result :latency_ms) :median) (plist-get result :target)))
                        (t (format "✗ %s" (plist-get result :error)))))
    result))

(defun tile-lsp-lowered (&optional stage)
  "Show the kernel at point lowered to STAGE (\"cuda\") beside the source."
  (interactive (list (and current-prefix-arg
                          (completing-read "Stage: " '("tile" "legalized" "thread" "host" "device" "cuda" "ptx" "sass") nil t))))
  (let* ((reply (tile-lsp--execute "tile-lsp.showLowered" (list :stage (or stage "cuda"))))
         (text (plist-get reply :text)))
    (when text
      (with-current-buffer (get-buffer-create (format "*%s*" (plist-get reply :title)))
        (let ((inhibit-read-only t))
          (erase-buffer)
          (insert text)
          (goto-char (point-min))
          (forward-line (1- (or (plist-get reply :line) 1))))
        (when (fboundp 'c++-mode) (delay-mode-hooks (c++-mode)))
        (view-mode 1)
        (display-buffer (current-buffer) '(display-buffer-use-some-window (inhibit-same-window . t)))
        (current-buffer)))))

(provide 'tile-lsp)
;;; tile-lsp.el ends here
