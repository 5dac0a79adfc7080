// The workbench as a person uses it: files opened from the explorer, lenses clicked by the mouse, notifications answered.
export function workbench(page) {
  const editor = page.locator('.editor-instance').first();
  return {
    editor,
    lens: (text) => editor.locator('.codelens-decoration a', { hasText: text }),
    toast: (text) => page.locator('.notification-toast', { hasText: text }),
    /** Opens a file from the explorer and gives the editor the focus. */
    open: async (name) => {
      const file = page.locator('.explorer-folders-view .monaco-list-row', { hasText: name });
      await file.waitFor({ timeout: 90000 });
      await file.dblclick();
      await page.locator('.tab.active', { hasText: name }).waitFor();
      await editor.locator('.view-line').first().waitFor();
    },
    /** A plain mouse click: locator.click() may scroll the editor first. */
    click: async (locator) => {
      let box = null;                                      // lenses are drawn anew with every answer of the server
      for (let i = 0; i < 50 && !box; i++) box = await locator.boundingBox({ timeout: 1000 }).catch(() => null) ?? (await page.waitForTimeout(100), null);
      await page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
    },
  };
}
